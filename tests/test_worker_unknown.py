"""Rows that name what this release does not know, and what is no task at all."""

import datetime as dt
import os
import sys
import tempfile
from pathlib import Path
from unittest import mock, skipUnless

from django.test import TestCase, override_settings
from django.utils import timezone

from django_nobroker import Queue, tasks
from django_nobroker.exceptions import NotATask, UnknownTask
from django_nobroker.models import Attempt, Job
from django_nobroker.tasks import SUPPORTED
from tests.rows import alter, bring_forward, insert
from tests.test_worker_tasks import CALL, drain
from tests.work import Quiet, fresh

if SUPPORTED:
    from tests import task_samples as samples


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
