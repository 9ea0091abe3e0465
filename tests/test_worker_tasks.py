"""Tasks as a worker runs them: results, signals, and what this release does not know."""

import datetime as dt
import os
import sys
import tempfile
from pathlib import Path
from unittest import mock, skipUnless

from django.contrib.auth.models import Group
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from django_nobroker import Queue, tasks
from django_nobroker.exceptions import NotATask, UnknownTask
from django_nobroker.models import Attempt, Job
from django_nobroker.tasks import SUPPORTED
from django_nobroker.worker import Worker, WorkerOptions
from tests.rows import alter, bring_forward, insert
from tests.work import Quiet, fresh

if SUPPORTED:
    from django.tasks import TaskResultStatus, signals

    from tests import task_samples as samples

CALL = '{"args": [], "kwargs": {}}'


def drain(**options):
    """Run what is due with a worker for all queues; return what it did."""
    options = {"burst": True, "handle_signals": False, "poll_interval": 0.01, **options}
    return Worker.serving(WorkerOptions.checked(**options)).run()


class RunMixin(Quiet):
    def test_arguments_and_results(self):
        results = [samples.add.enqueue(1, b=2), samples.add_async.enqueue("a", b="b")]
        self.assertEqual(drain().succeeded, 2)
        for result, value in zip(results, (3, "ab"), strict=True):
            result.refresh()
            self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
            self.assertEqual(result.return_value, value)
            self.assertEqual((result.attempts, result.errors), (1, []))
            self.assertLessEqual(result.enqueued_at, result.started_at)
            self.assertLessEqual(result.started_at, result.finished_at)
            self.assertEqual(result.last_attempted_at, result.started_at)

    def test_the_context(self):
        result = samples.tell.enqueue()
        drain()
        result.refresh()
        known, job_id, attempt, workers, status = result.return_value
        self.assertEqual((known, job_id), (result.id, int(result.id)))
        self.assertEqual((attempt, workers, status), (1, result.worker_ids, "RUNNING"))

    def test_the_context_of_a_second_attempt(self):
        result = samples.fail_once.enqueue()
        drain()
        drain()
        result.refresh()
        self.assertEqual((result.return_value, result.attempts), ([1, 2], 2))
        self.assertEqual(len(result.errors), 1)

    def test_attempts_of_the_policy(self):
        result = samples.fail_twice.enqueue()
        drain()
        drain()
        result.refresh()
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.FAILED, 2))
        self.assertEqual([error.exception_class for error in result.errors], [ValueError] * 2)

    def test_results_that_json_cannot_hold_are_dead_at_once(self):
        for kind in ("lambda", "nan", "set", "key", "bytes"):
            samples.return_what_json_cannot_hold.enqueue(kind)
        self.assertEqual(drain().dead, 5)
        for job in Job.objects.all():
            self.assertEqual((job.state, job.attempts, job.result), ("dead", 1, None))
            self.assertTrue(job.last_error)

    def test_outcomes(self):
        for what in ("reject", "snooze", "retry"):
            samples.choose.enqueue(what)
        drain()
        states = [(job.state, job.attempts) for job in Job.objects.order_by("id")]
        self.assertEqual(states, [("dead", 1), ("ready", 0), ("ready", 1)])

    def test_beside_payload_jobs_without_a_handler(self):
        waiting = Queue().enqueue_many(range(5))
        samples.add.enqueue(1)
        self.assertEqual(drain().succeeded, 1)
        self.assertEqual(Queue().stats().ready, len(waiting))

    def test_rows_that_others_wrote(self):
        for payload in ("{broken", "[]", "5", '{"args": 5}', '{"kwargs": []}', "null"):
            insert(payload, task="tests.task_samples.add")
        good = samples.add.enqueue(1)
        stats = drain()
        self.assertEqual((stats.succeeded, stats.dead), (1, 6))
        good.refresh()
        self.assertEqual(good.return_value, 1)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class InlineTests(RunMixin, TestCase):
    pass


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class ThreadedTests(RunMixin, TransactionTestCase):
    pass


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


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class UnknownTests(Quiet, TestCase):
    """A task that this release does not have, or does not have so."""

    def setUp(self):
        super().setUp()
        for path in ("tests.task_samples.nosuch", "nosuch.module.task", "tests.broken.task"):
            insert(CALL, task=path)
        samples.add.enqueue()
        samples.add.enqueue(1, 2, 3)
        samples.tell.enqueue("context and more")

    def test_are_given_back_unburnt(self):
        good = samples.add.enqueue(1)
        stats = drain()
        self.assertEqual((stats.succeeded, stats.failed, stats.dead), (1, 0, 0))
        good.refresh()
        self.assertEqual(good.return_value, 1)
        unknown = Job.objects.filter(state="ready")
        self.assertEqual(len(unknown), 6)
        for job in unknown:
            self.assertEqual((job.attempts, job.error_class), (0, UNKNOWN))
            self.assertIsNotNone(job.unknown_since)
            self.assertGreater(job.available_at, job.created_at)
        self.assertFalse(Attempt.objects.exists())
        # None is due: there is nothing to be hot about.
        self.assertEqual(drain().leased, 0)

    def test_are_said_once_for_each_path(self):
        with self.assertLogs("django_nobroker", "WARNING") as log:
            insert(CALL, task="tests.task_samples.nosuch")
            drain()
        self.assertEqual(sum("nosuch cannot be" in line for line in log.output), 1)
        self.assertEqual(sum("do not fit tests.task_samples.add" in x for x in log.output), 1)

    def test_whatever_a_module_raises_while_it_is_imported(self):
        good = samples.add.enqueue(1)
        for number in range(len(BAD_MODULES)):
            insert(CALL, task=f"nobroker_bad_{number}.task")
        with tempfile.TemporaryDirectory() as directory:
            for number, text in enumerate(BAD_MODULES):
                Path(directory, f"nobroker_bad_{number}.py").write_text(text)
            with mock.patch.object(sys, "path", [directory, *sys.path]):
                drain()
        good.refresh()
        self.assertEqual(good.return_value, 1)
        for job in Job.objects.filter(task__startswith="nobroker_bad"):
            self.assertEqual((job.state, job.attempts, job.error_class), ("ready", 0, UNKNOWN))

    def test_run_once_they_are_known(self):
        drain()
        found = tasks.find
        job = Job.objects.get(task="tests.task_samples.nosuch")
        bring_forward(job)
        with mock.patch.object(tasks, "find", lambda path: found(path.replace("nosuch", "tell"))):
            self.assertEqual(drain().succeeded, 1)
        job = fresh(job)
        self.assertEqual((job.state, job.attempts, job.unknown_since), ("done", 1, None))

    def test_are_dead_when_the_grace_is_over(self):
        drain()
        long_ago = timezone.now() - dt.timedelta(hours=2)
        jobs = Job.objects.filter(state="ready")
        for job in jobs:
            alter(job, unknown_since=long_ago)
        bring_forward(*jobs)
        self.assertEqual(drain().dead, 6)
        for job in Job.objects.filter(state="dead"):
            self.assertEqual((job.attempts, job.error_class), (1, UNKNOWN))
            self.assertIn("job", str(job))
        Queue().requeue_dead()
        self.assertFalse(Job.objects.filter(unknown_since__isnull=False).exists())

    def test_a_grace_of_nothing(self):
        with override_settings(NOBROKER={"UNKNOWN_GRACE": 0}):
            self.assertEqual(drain().dead, 6)


BAD_MODULES = (
    "raise KeyboardInterrupt",
    "class Own(BaseException): pass\nraise Own",
    "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd",
    "import nosuch_dependency",
    "def task(:",
)
UNKNOWN = "django_nobroker.exceptions.UnknownTask"
NOT_A_TASK = "django_nobroker.exceptions.NotATask"


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class NoTaskTests(Quiet, TestCase):
    """What a row names is called only if it is a Task."""

    PATHS = (
        "os.system", "os.abort", "subprocess.run", "antigravity.geohash", "builtins.exit",
        "sys.exit",
        "tests.task_samples.not_a_task", "tests.task_samples.Group", "tests.task_samples",
        "django_nobroker.Queue", "x" * 255, "a b.c", ".a", "a.", "..", "add", "ü.ß", "1.2",
        "__import__",
    )  # fmt: skip

    def test_are_dead_at_once(self):
        for path in self.PATHS:
            insert('{"args": ["true"], "kwargs": {}}', task=path)
        good = samples.add.enqueue(1)
        with mock.patch.object(os, "system") as system, mock.patch.object(os, "abort") as abort:
            stats = drain()
        system.assert_not_called()
        abort.assert_not_called()
        good.refresh()
        self.assertEqual(good.return_value, 1)
        for job in Job.objects.exclude(pk=good.id):
            with self.subTest(job.task):
                if job.state == "ready":
                    # Could be a task of another release.
                    self.assertEqual(job.error_class, UNKNOWN)
                else:
                    self.assertEqual((job.state, job.attempts), ("dead", 1))
                    self.assertEqual(job.error_class, NOT_A_TASK)
        self.assertEqual(stats.dead, Job.objects.filter(state="dead").count())
        waiting = set(Job.objects.filter(state="ready").values_list("task", flat=True))
        self.assertEqual(waiting, {"ü.ß"})

    def test_the_standard_library_is_not_even_imported(self):
        for module in ("antigravity", "this", "test.autotest"):
            self.assertNotIn(module, sys.modules)
            self.assertRaises(NotATask, tasks.find, f"{module}.anything")
            self.assertNotIn(module, sys.modules)

    def test_one_by_an_old_name_is_one(self):
        self.assertIs(tasks.find("tests.task_samples.old_name"), samples.add)
        self.assertRaises(UnknownTask, tasks.find, "tests.task_samples.older_name")
