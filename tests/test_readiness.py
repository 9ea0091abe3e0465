"""What a release could not run of what is queued."""

import io
from unittest import mock, skipUnless

from django.core.management import CommandError, call_command
from django.test import TestCase

from django_nobroker import Queue, readiness, tasks
from django_nobroker.tasks import SUPPORTED
from tests.rows import insert

if SUPPORTED:
    from tests import task_samples as samples

CALL = '{"args": [], "kwargs": {}}'


def said(**options):
    """Return what the command says, and its exit code."""
    out = io.StringIO()
    try:
        call_command("nobroker_check", stdout=out, **options)
    except CommandError as error:
        return f"{out.getvalue()}{error}", error.returncode
    return out.getvalue(), 0


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class CheckTests(TestCase):
    def test_all_is_well(self):
        samples.add.enqueue(1)
        samples.tell.enqueue()
        Queue().enqueue(1)
        self.assertEqual(list(readiness.unrunnable("default")), [])
        self.assertEqual(said()[1], 0)

    def test_tasks_that_are_gone(self):
        for _ in range(3):
            insert(CALL, task="tests.task_samples.nosuch")
        insert(CALL, task="os.system", queue="other")
        found = {(one.queue, one.task): one.count for one in readiness.unrunnable("default")}
        self.assertEqual(
            found, {("default", "tests.task_samples.nosuch"): 3, ("other", "os.system"): 1}
        )
        text, code = said()
        self.assertEqual(code, 1)
        self.assertIn("nosuch in queue default: 3 job(s)", text)

    def test_arguments_that_no_longer_fit(self):
        samples.add.enqueue(1)
        samples.add.enqueue()
        samples.add.enqueue(1, c=2)
        samples.tell.enqueue("too much")
        insert("{broken", task="tests.task_samples.add")
        with mock.patch.object(readiness, "BATCH", 2):
            found = list(readiness.unrunnable("default"))
        self.assertEqual([one.count for one in found], [1, 1, 1, 1])
        reasons = " ".join(one.reason for one in found)
        for word in ("missing a required argument", "'c'", "too many", "JSON"):
            self.assertIn(word, reasons)

    def test_finished_jobs_are_none_of_its_business(self):
        insert(
            CALL, task="tests.task_samples.nosuch", state="dead", finished_at="2020-01-01 00:00:00"
        )
        self.assertEqual(said()[1], 0)


class WithoutTasksTests(TestCase):
    @mock.patch.object(tasks, "SUPPORTED", False)
    def test_before_django_6(self):
        self.assertEqual(said()[1], 2)
