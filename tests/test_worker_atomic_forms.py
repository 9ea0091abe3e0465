"""The manual form of exactly once, and tasks: the same promises as for handlers."""

from unittest import skipIf, skipUnless

from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import TransactionTestCase

from django_nobroker import LeaseLost, Queue, policy, transitions
from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from tests.rows import HOUR, expire
from tests.test_worker_tasks import drain
from tests.work import Quiet, elsewhere, states, work

if SUPPORTED:
    from tests import task_samples as samples


def groups():
    return set(Group.objects.values_list("name", flat=True))


class LostTests(Quiet, TransactionTestCase):
    """Whoever takes the job away takes the effects with it."""

    @skipIf(connection.vendor == "sqlite", "there the handler's transaction locks the others out")
    def test_a_cancelled_job_leaves_nothing(self):
        @policy(atomic=True)
        def handler(job):
            Group.objects.create(name="a")
            with elsewhere():
                transitions.cancel(Job.objects.all())

        job = Queue().enqueue(1)
        stats = work(handler, max_jobs=1)
        self.assertEqual((stats.succeeded, stats.lost_leases), (0, 1))
        self.assertEqual((states(job), groups()), (["cancelled"], set()))

    @skipIf(connection.vendor == "sqlite", "there the handler's transaction locks the others out")
    def test_a_job_that_was_reaped_and_leased_again_leaves_nothing(self):
        others = []

        @policy(atomic=True)
        def handler(job):
            Group.objects.create(name="a")
            with elsewhere():
                expire(job)
                transitions.reap("default", lambda name: Queue().options, in_touch=HOUR)
                Job.objects.update(available_at="2020-01-01T00:00:00Z")
                others.extend(Queue().lease())

        Queue().enqueue(1)
        stats = work(handler, max_jobs=1)
        self.assertEqual((stats.succeeded, stats.lost_leases), (0, 1))
        self.assertEqual(groups(), set())
        Queue().ack(others[0])


class ManualTests(Quiet, TransactionTestCase):
    """The same by hand: the ack in the caller's own transaction."""

    def test_both_or_neither(self):
        queue = Queue()
        queue.enqueue_many(["a", "b"])
        first, second = queue.lease(2)
        with transaction.atomic():
            Group.objects.create(name="a")
            queue.ack(first)
        expire(second)
        transitions.reap("default", lambda name: queue.options, in_touch=HOUR)
        with self.assertRaises(LeaseLost), transaction.atomic():
            Group.objects.create(name="b")
            queue.ack(second)
        self.assertEqual(groups(), {"a"})

    def test_in_a_workers_handler(self):
        def handler(job):
            with transaction.atomic():
                Group.objects.create(name="a")
                Queue().ack(job)

        job = Queue().enqueue(1)
        with self.assertNoLogs("django_nobroker", "WARNING"):
            stats = work(handler)
        self.assertEqual((stats.succeeded, stats.lost_leases), (1, 0))
        self.assertEqual((states(job), groups()), (["done"], {"a"}))


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class TaskTests(Quiet, TransactionTestCase):
    def test_each_end(self):
        good = [samples.make_group.enqueue("a"), samples.make_group_async.enqueue("b")]
        for then in ("fail", "reject", "snooze", "nan"):
            samples.make_group.enqueue(then, then)
        samples.make_group_async.enqueue("c", "fail")
        drain()
        self.assertEqual(groups(), {"a", "b"})
        for result, value in zip(good, "ab", strict=True):
            result.refresh()
            self.assertEqual(result.return_value, value)
        found = [(job.state, job.attempts) for job in Job.objects.order_by("id")[2:]]
        expected = [("ready", 1), ("dead", 1), ("ready", 0), ("dead", 1), ("ready", 1)]
        self.assertEqual(found, expected)
