"""The helpers for the tests of projects."""

import datetime as dt
from unittest import skipUnless

from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from django_nobroker import Queue, SerializationError
from django_nobroker.exceptions import LeaseInTransaction
from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from django_nobroker.testing import JobAssertions, enqueued, run_due
from tests.work import Quiet

if SUPPORTED:
    from django.tasks import TaskResultStatus, default_task_backend
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist

    from tests import task_samples as samples

IMMEDIATE = {"default": {"BACKEND": "django_nobroker.testing.ImmediateBackend", "QUEUES": []}}


def make_group(job):
    Group.objects.create(name=job.payload)


class RunDueMixin(Quiet):
    def test_runs_what_is_due_on_the_tests_own_connection(self):
        Queue().enqueue("a")
        later = Queue().enqueue("b", delay=60)
        other = Queue("other").enqueue("c")
        stats = run_due("default", make_group)
        self.assertEqual((stats.leased, stats.succeeded), (1, 1))
        self.assertEqual([group.name for group in Group.objects.all()], ["a"])
        self.assertEqual(enqueued(), [later, other])
        self.assertEqual(run_due(Queue("other"), make_group).succeeded, 1)
        self.assertTrue(connection.is_usable())

    def test_all_queues_with_their_own_handlers(self):
        options = {"HANDLER": "tests.test_testing.make_group"}
        with override_settings(NOBROKER={"QUEUES": {"a": options, "b": options}}):
            Queue("a").enqueue("a")
            Queue("b").enqueue("b")
            self.assertEqual(run_due().succeeded, 2)

    def test_inside_a_block_of_the_tests_own_nothing_is_broken(self):
        Queue().enqueue("a")
        with transaction.atomic():
            Group.objects.create(name="before")
            self.assertRaises(LeaseInTransaction, run_due, "default", make_group)
            Group.objects.create(name="after")
        self.assertEqual(Group.objects.count(), 2)
        self.assertEqual(run_due("default", make_group).succeeded, 1)

    def test_a_failure_is_kept_for_the_test_to_see(self):
        Queue().enqueue("x" * 10_000)
        Queue().enqueue(None)
        run_due("default", lambda job: 1 / 0)
        self.assertEqual(
            [job.error_class for job in enqueued()], ["builtins.ZeroDivisionError"] * 2
        )


class RunDueTests(RunDueMixin, TestCase):
    pass


class RunDueWithCommitsTests(RunDueMixin, TransactionTestCase):
    pass


class AssertionTests(JobAssertions, TestCase):
    def test_payloads(self):
        Queue("emails").enqueue({"to": 1})
        [job] = self.assertEnqueued("emails", {"to": 1})
        self.assertEqual(job.payload, {"to": 1})
        self.assertEnqueued(Queue("emails"), count=1)
        self.assertNothingEnqueued("other")
        with self.assertRaises(AssertionError):
            self.assertEnqueued("emails", args=[1])
        for call in (
            lambda: self.assertEnqueued("emails", {"to": 2}),
            lambda: self.assertEnqueued("emails", count=2),
            lambda: self.assertEnqueued("other"),
            lambda: self.assertNothingEnqueued("emails"),
            lambda: self.assertNothingEnqueued(),
        ):
            with self.assertRaises(AssertionError) as caught:
                call()
            self.assertTrue(str(caught.exception))

    def test_none_is_a_payload_like_any(self):
        Queue().enqueue(0)
        with self.assertRaises(AssertionError):
            self.assertEnqueued("default", None, count=2)

    @skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
    def test_tasks(self):
        samples.add.enqueue((1,), b=[2])
        samples.add.enqueue(3)
        self.assertEnqueued(samples.add, count=2)
        self.assertEnqueued(samples.add, args=[(1,)], kwargs={"b": [2]}, count=1)
        self.assertEnqueued(samples.add, kwargs={}, count=1)
        self.assertNothingEnqueued(samples.fail)
        run_due()
        self.assertNothingEnqueued()
        self.assertEqual(len(enqueued(samples.add, state=None)), 2)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
@override_settings(TASKS=IMMEDIATE)
class ImmediateTests(Quiet, SimpleTestCase):
    """Without a database at all."""

    def test_runs_at_once(self):
        result = samples.add.enqueue((1,), b=[2])
        self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
        # Through JSON, as the real backend.
        self.assertEqual((result.return_value, result.args), ([1, 2], [[1]]))
        self.assertEqual(default_task_backend.get_result(result.id), result)
        with self.assertRaises(TaskResultDoesNotExist):
            default_task_backend.get_result("999")

    async def test_async(self):
        result = await samples.add_async.aenqueue(1, b=2)
        self.assertEqual(result.return_value, 3)
        results = await default_task_backend.aenqueue_many(samples.add, [((1,), {}), ((2,), {})])
        self.assertEqual([result.return_value for result in results], [1, 2])

    def test_refuses_what_the_real_one_refuses(self):
        for value, error in (
            (object(), TypeError), (float("nan"), SerializationError), ({1: 2}, SerializationError),
        ):  # fmt: skip
            with self.assertRaises(error):
                samples.add.enqueue(value)
        with self.assertRaises(InvalidTask):
            samples.add.using(queue_name="a b")
        for kind in ("lambda", "nan", "set", "key"):
            result = samples.return_what_json_cannot_hold.enqueue(kind)
            self.assertEqual(result.status, TaskResultStatus.FAILED)

    def test_a_failure(self):
        result = samples.fail.enqueue()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual(result.errors[0].exception_class, ValueError)

    def test_the_context(self):
        result = samples.tell.enqueue()
        known, job_id, attempt, workers, status = result.return_value
        self.assertEqual((known, job_id), (result.id, int(result.id)))
        self.assertEqual((attempt, workers, status), (1, ["immediate"], "RUNNING"))

    def test_run_after_is_not_waited_for(self):
        later = timezone.now() + dt.timedelta(days=1)
        self.assertEqual(samples.add.using(run_after=later).enqueue(1).return_value, 1)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class SameAsTheRealOneTests(Quiet, TestCase):
    """The same calls end in the same values."""

    def test_values(self):
        calls = [
            ((), {"a": "\x00\ud800"}),
            ((2**80,), {"b": 0}),
            (([1, {"x": None}],), {"b": ["y"]}),
            ((1.5,), {"b": 2}),
            ((("t",),), {"b": ["u"]}),
        ]
        with override_settings(TASKS=IMMEDIATE):
            immediate = [samples.add.enqueue(*args, **kwargs) for args, kwargs in calls]
        options = {"NOBROKER": {"MAX_ATTEMPTS": 1}}
        with override_settings(**options):
            real = [samples.add.enqueue(*args, **kwargs) for args, kwargs in calls]
        run_due()
        for one, other in zip(immediate, real, strict=True):
            other.refresh()
            self.assertEqual((one.args, one.kwargs), (other.args, other.kwargs))
            self.assertEqual((one.status, one._return_value), (other.status, other._return_value))
            self.assertEqual(len(one.errors), len(other.errors))
        self.assertEqual(Job.objects.count(), len(calls))
