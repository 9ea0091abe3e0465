"""Django's signals of tasks, as a worker sends them."""

from unittest import skipUnless

from django.contrib.auth.models import Group
from django.test import TestCase, TransactionTestCase

from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from tests.test_worker_tasks import drain
from tests.work import Quiet

if SUPPORTED:
    from django.tasks import signals

    from tests import task_samples as samples


class SignalMixin(Quiet):
    def heard(self, *names):
        """Return a list to which each signal is added, and connect to it."""
        heard = []
        for name in names:
            signal = getattr(signals, name)

            def receive(sender, task_result, name=name, **kwargs):
                heard.append((name, task_result.id, str(task_result.status)))

            signal.connect(receive, weak=False)
            self.addCleanup(signal.disconnect, receive)
        return heard

    def test_of_a_success(self):
        heard = self.heard("task_enqueued", "task_started", "task_finished")
        result = samples.add.enqueue(1)
        drain()
        self.assertEqual(
            heard,
            [
                ("task_enqueued", result.id, "READY"),
                ("task_started", result.id, "RUNNING"),
                ("task_finished", result.id, "SUCCESSFUL"),
            ],
        )

    def test_the_end_is_told_once_after_all_attempts(self):
        heard = self.heard("task_started", "task_finished")
        samples.fail_twice.enqueue()
        drain()
        drain()
        self.assertEqual([status for _, _, status in heard], ["RUNNING", "RUNNING", "FAILED"])

    def test_the_end_is_told_after_the_database_knows(self):
        states = []

        def receive(sender, task_result, **kwargs):
            states.append(Job.objects.get(pk=task_result.id).state)

        signals.task_finished.connect(receive, weak=False)
        self.addCleanup(signals.task_finished.disconnect, receive)
        samples.add.enqueue(1)
        samples.choose.enqueue("reject")
        drain()
        self.assertEqual(sorted(states), ["dead", "done"])

    def test_a_receiver_that_raises_harms_no_job(self):
        def receive(sender, **kwargs):
            raise ValueError("of a receiver")

        for signal in (signals.task_started, signals.task_finished):
            signal.connect(receive, weak=False)
            self.addCleanup(signal.disconnect, receive)
        for _ in range(3):
            samples.add.enqueue(1)
        self.assertEqual(drain().succeeded, 3)

    def test_djangos_own_log(self):
        with self.assertLogs("django.tasks", "DEBUG") as log:
            samples.fail.enqueue("to be seen")
            Job.objects.update(max_attempts=1)
            drain()
        self.assertEqual(len(log.output), 3)
        self.assertIn("ValueError: to be seen", log.output[2])


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class InlineSignalTests(SignalMixin, TestCase):
    pass


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class ThreadedSignalTests(SignalMixin, TransactionTestCase):
    def test_what_a_receiver_leaves_behind_is_rolled_back(self):
        def receive(sender, **kwargs):
            from django.db import transaction

            transaction.set_autocommit(False)
            Group.objects.create(name="left over")

        signals.task_finished.connect(receive, weak=False)
        self.addCleanup(signals.task_finished.disconnect, receive)
        for _ in range(3):
            samples.add.enqueue(1)
        self.assertEqual(drain().succeeded, 3)
        self.assertFalse(Group.objects.exists())
