"""Workers in other surroundings: developers' tools, a project with nothing else, a new release."""

import os
from unittest import mock, skipUnless

from django_nobroker.models import Attempt, Job
from django_nobroker.tasks import SUPPORTED
from tests.processes import environment, finish, spawn
from tests.rows import insert

from .stage import ProcessTestCase

if SUPPORTED:
    from tests import task_samples as samples

RELEASE = "from django.tasks import task\n\n\n@task\ndef {}():\n    return {!r}\n"


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class ToolTests(ProcessTestCase):
    """Warnings are errors in all of these: they would be seen in what the worker says."""

    def run_with(self, *options, **variables):
        results = [samples.add.enqueue(number, b=1) for number in range(10)]
        results += [samples.add_async.enqueue(number, b=1) for number in range(10)]
        with mock.patch.dict(os.environ, variables):
            worker = self.start(
                "worker", *options, "-m", "django", "nobroker_work", "--burst", "-c", 3
            )
            worker.wait()
        self.assert_calm(worker)
        self.assertNotIn("warn", worker.said.lower())
        self.assertEqual(worker.totals["succeeded"], 20)
        for result in results:
            result.refresh()
            self.assertEqual((result.return_value, result.attempts), (result.args[0] + 1, 1))

    def test_development_mode(self):
        self.run_with("-X", "dev", "-W", "error")

    def test_development_mode_with_asyncios_own(self):
        self.run_with("-X", "dev", "-W", "error", PYTHONASYNCIODEBUG="1")

    def test_coverage(self):
        try:
            import coverage
        except ImportError:
            self.skipTest("coverage is not installed")
        data = self.scene / "coverage"
        samples_py = "*/tests/task_samples.py"
        self.run_with(
            "-m", "coverage", "run", "--data-file", data, "--include", samples_py, "--branch"
        )  # fmt: skip
        seen = coverage.CoverageData(str(data))
        seen.read()
        [path] = seen.measured_files()
        lines = {line for arc in seen.arcs(path) for line in arc}
        for task in (samples.add, samples.add_async):
            # The body of a task has been followed, on whatever thread it ran.
            self.assertIn(task.func.__code__.co_firstlineno + 2, lines)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class BareProjectTests(ProcessTestCase):
    def run_bare(self, *args, code=0):
        env = environment() | {"DJANGO_SETTINGS_MODULE": "tests.bare"}
        return finish(spawn(*args, env=env), code=code)

    def test_it_needs_no_other_app(self):
        said = self.run_bare("-m", "django", "makemigrations", "--check", "--dry-run")
        self.assertIn("No changes", said)
        self.run_bare("-m", "django", "migrate", "--check")
        self.run_bare("-m", "django", "check", "--database", "default")
        enqueue = (
            "import django; django.setup(); from django.db import transaction\n"
            "from django.tasks import task, default_task_backend\n"
            "from django_nobroker import Queue\n"
            "from tests.concurrency.bare_tasks import double\n"
            "with transaction.atomic():\n"
            "    double.enqueue(21); Queue('work').enqueue([1])\n"
        )
        self.run_bare("-c", enqueue)
        handler = "tests.concurrency.bare_tasks:look"
        said = self.run_bare("-m", "django", "nobroker_work", handler, "--burst")
        self.assertIn("succeeded 2", said)
        self.assertEqual(Job.objects.get(task__gt="").result, "42")
        self.run_bare("-m", "django", "nobroker_stats")
        self.run_bare("-m", "django", "nobroker_check")


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class SwapTests(ProcessTestCase):
    """`current` is a link to the directory of a release, as many deploys have it."""

    def setUp(self):
        super().setUp()
        self.current = self.scene / "current"
        for number, names in ((1, ["kept"]), (2, ["kept", "added"])):
            package = self.scene / f"release-{number}" / "shipped"
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
            for name in names:
                (package / f"{name}.py").write_text(RELEASE.format("run", f"{name} {number}"))
        self.link(1)
        paths = [str(self.current), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
        variables.start()
        self.addCleanup(variables.stop)

    def link(self, number):
        new = self.scene / "new"
        new.symlink_to(self.scene / f"release-{number}")
        new.replace(self.current)

    def enqueue(self, name, count):
        for _ in range(count):
            insert("{}", task=f"shipped.{name}.run")

    def results(self):
        """Return how often each result is there."""
        found = list(Job.objects.filter(state="done").values_list("result", flat=True))
        return {text.strip('"'): found.count(text) for text in set(found)}

    def test_a_directory_that_is_swapped_under_running_workers(self):
        workers = [self.worker(), self.worker()]
        self.enqueue("kept", 20)
        self.wait_for_states(done=20)
        # The web servers are ahead.
        self.enqueue("added", 5)
        self.wait_for(
            lambda: Job.objects.filter(state="ready", unknown_since__isnull=False).count() == 5,
            "5 jobs of the next release that wait",
        )
        self.link(2)
        self.enqueue("kept", 20)
        self.enqueue("added", 5)
        # What a worker has imported stays as it was; what it had not found, it finds.
        self.wait_for_states(done=50)
        self.assertEqual(self.results()["added 2"], 10)
        for worker in workers:
            worker.stop()
        self.enqueue("kept", 20)
        self.worker(None, "--burst").wait()
        self.assertGreaterEqual(self.results()["kept 2"], 20)
        self.assertEqual(set(Job.objects.values_list("state", "attempts")), {("done", 1)})
        self.assertFalse(Attempt.objects.exists())


class EndlessTests(ProcessTestCase):
    def test_one_that_never_ends_holds_one_slot_only(self):
        self.queue.enqueue("slow")
        worker = self.worker("hang_if_told", "-c", 4)
        self.wait_for_mark("started")
        self.queue.enqueue_many(["quick"] * 100)
        self.wait_for_states(leased=1, done=100)
        self.mark("go")
        self.wait_for_states(done=101)
        worker.stop()
        self.assertFalse(Attempt.objects.exists())
