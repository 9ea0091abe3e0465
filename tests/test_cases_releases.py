"""Code that changes while jobs wait: names that go, modules that are broken for a while."""

import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import skipUnless

from django.test import TestCase, TransactionTestCase

from django_nobroker import Queue
from django_nobroker.models import Attempt, Job
from django_nobroker.tasks import SUPPORTED
from tests.rows import bring_forward, insert
from tests.work import Background, Quiet, eventually, work, worker

if SUPPORTED:
    from django.tasks import TaskResultStatus, default_task_backend

    from tests import task_samples as samples

UNKNOWN = "django_nobroker.exceptions.UnknownTask"
HEAD = "from django.tasks import task\n\n\n"
PACKAGE = "nobroker_release"


class ReleaseMixin(Quiet):
    """A package in a directory of its own, which is written and changed as by a deploy."""

    def setUp(self):
        super().setUp()
        self.directory = Path(tempfile.mkdtemp(prefix="nobroker-release-"))
        self.addCleanup(shutil.rmtree, self.directory)
        sys.path.insert(0, str(self.directory))
        self.addCleanup(sys.path.remove, str(self.directory))
        self.addCleanup(self.restart)
        self.write("__init__", "")

    def write(self, module, text):
        path = self.directory / PACKAGE
        path.mkdir(exist_ok=True)
        (path / f"{module}.py").write_text(text)

    def task(self, module, name):
        """Return a task of the release as it is now."""
        importlib.invalidate_caches()
        return getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)

    def restart(self):
        """Forget what was imported, as a new process would not know it."""
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]

    def unknown(self):
        return Job.objects.filter(state="ready", error_class=UNKNOWN)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class RenameTests(ReleaseMixin, TestCase):
    OLD = f"{HEAD}@task\ndef old(number):\n    return number\n"
    NEW = f"{HEAD}@task\ndef renamed(number):\n    return number + 1000\n"
    ALIAS = f"{NEW}\n\nold = renamed\n"

    def setUp(self):
        super().setUp()
        self.write("mail", self.OLD)
        old = self.task("mail", "old")
        self.results = default_task_backend.enqueue_many(old, [((n,), {}) for n in range(100)])

    def deploy(self, text):
        self.restart()
        self.write("mail", text)

    def assert_all_done(self):
        self.assertEqual(set(Job.objects.values_list("state", "attempts")), {("done", 1)})
        for number, result in enumerate(self.results):
            found = default_task_backend.get_result(result.id)
            self.assertEqual(found.return_value, number + 1000)

    def test_with_an_alias(self):
        self.deploy(self.ALIAS)
        self.assertEqual(work(queues=None).succeeded, 100)
        self.assert_all_done()

    def test_without_one_they_wait_then_are_dead_and_a_retry_works_once_it_is_added(self):
        self.deploy(self.NEW)
        work(queues=None)
        self.assertEqual(self.unknown().filter(attempts=0).count(), 100)
        long_ago = Job.objects.first().unknown_since.replace(year=2020)
        Job.objects.update(unknown_since=long_ago)
        bring_forward(*Job.objects.all())
        self.assertEqual(work(queues=None).dead, 100)
        for result in self.results:
            result.refresh()
            self.assertEqual(result.status, TaskResultStatus.FAILED)
            self.assertIn("old", result.errors[0].traceback)
        self.deploy(self.ALIAS)
        self.assertEqual(Queue().requeue_dead(), 100)
        self.assertEqual(work(queues=None).succeeded, 100)
        self.assert_all_done()

    def test_the_alias_may_come_while_they_wait(self):
        self.deploy(self.NEW)
        work(queues=None)
        self.deploy(self.ALIAS)
        bring_forward(*Job.objects.all())
        self.assertEqual(work(queues=None).succeeded, 100)
        self.assert_all_done()


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class RunningWorkerTests(ReleaseMixin, TransactionTestCase):
    """The files change under a worker that is not started again."""

    BROKEN = {
        "missing": None,
        "imports": "import nosuch_dependency\n",
        "name": "from decimal import nosuch_name\n",
        "syntax": "def broken(:\n",
        "error": "1 / 0\n",
        "leaves": "raise SystemExit(3)\n",
        "unready": HEAD,
    }

    def running(self):
        return Background(worker(queues=None, burst=False, concurrency=2))

    def until_done(self, number):
        """Wait until so many are done; let none wait for its time."""

        def look():
            bring_forward(*Job.objects.filter(state="ready"))
            return Job.objects.filter(state="done").count() == number

        eventually(look)

    def test_modules_that_are_broken_for_a_while(self):
        for name, text in self.BROKEN.items():
            if text is not None:
                self.write(name, text)
            insert('{"args": [5]}', task=f"{PACKAGE}.{name}.late")
            samples.add.enqueue(1)
        broken = len(self.BROKEN)
        with self.running():
            eventually(lambda: self.unknown().count() == broken)
            eventually(lambda: Job.objects.filter(state="done").count() == broken)
            self.assertEqual(set(self.unknown().values_list("attempts", flat=True)), {0})
            for job in self.unknown():
                self.assertGreater(job.available_at, job.created_at)
            for name in self.BROKEN:
                # What was imported without an error stays as it is until the next start.
                if name != "unready":
                    self.write(name, f"{HEAD}@task\ndef late(number):\n    return number\n")
            self.until_done(2 * broken - 1)
        self.assertEqual(self.unknown().count(), 1)
        self.assertFalse(Attempt.objects.exists())
        self.restart()
        self.write("unready", f"{HEAD}@task\ndef late(number):\n    return number\n")
        bring_forward(*self.unknown())
        self.assertEqual(work(queues=None).succeeded, 1)
        done = Job.objects.filter(task__startswith=PACKAGE).values_list("result", "attempts")
        self.assertEqual(set(done), {("5", 1)})

    def test_the_directory_is_swapped(self):
        part = "def value():\n    return {}\n"
        lazy = "@task\ndef {}():\n    from {}.part import value\n    return value()\n"
        self.write("jobs", HEAD + lazy.format("first", PACKAGE))
        self.write("part", part.format(1))
        first = self.task("jobs", "first")
        self.restart()
        results = [first.enqueue() for _ in range(20)]
        with self.running():
            self.until_done(20)
            old = self.directory / "old"
            (self.directory / PACKAGE).rename(old)
            # Between the two there is nothing.
            insert("{}", task=f"{PACKAGE}.later.second")
            insert("{}", task=f"{PACKAGE}.jobs.second")
            results += [first.enqueue() for _ in range(20)]
            eventually(lambda: self.unknown().count() == 2)
            self.write("__init__", "")
            self.write("part", part.format(2))
            for module in ("jobs", "later"):
                text = "\n\n".join(lazy.format(name, PACKAGE) for name in ("first", "second"))
                self.write(module, HEAD + text)
            results += [first.enqueue() for _ in range(20)]
            # The module `later` is new to this worker; `jobs` it has, as it was.
            self.until_done(61)
        self.assertEqual(self.unknown().count(), 1)
        self.restart()
        bring_forward(*self.unknown())
        self.assertEqual(work(queues=None).succeeded, 1)
        self.assertEqual(set(Job.objects.values_list("state", "attempts")), {("done", 1)})
        self.assertFalse(Attempt.objects.exists())
        self.assertEqual(Job.objects.get(task=f"{PACKAGE}.jobs.second").result, "2")

    def test_arguments_that_only_the_new_code_takes(self):
        """The web servers have the new code already, this worker has the old."""
        self.write("jobs", f"{HEAD}@task\ndef send(number):\n    return number\n")
        send = self.task("jobs", "send")
        with self.running():
            for number in range(10):
                send.enqueue(number)
                send.enqueue(number, copy=True)
            eventually(lambda: Job.objects.filter(state="done").count() == 10)
            eventually(lambda: self.unknown().count() == 10)
        self.assertEqual(set(self.unknown().values_list("attempts", flat=True)), {0})
        self.restart()
        self.write("jobs", f"{HEAD}@task\ndef send(number, copy=False):\n    return number\n")
        bring_forward(*self.unknown())
        self.assertEqual(work(queues=None).succeeded, 10)
        self.assertFalse(Attempt.objects.exists())
