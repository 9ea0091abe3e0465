"""The backend for django.tasks: what is written, and what is refused before anything is."""

import datetime as dt
from unittest import skipUnless

from django.core.checks import run_checks
from django.db import transaction
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone

from django_nobroker import Queue, SerializationError, transitions
from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from tests.rows import insert

if SUPPORTED:
    from django.tasks import TaskResultStatus, default_task_backend, task_backends
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist

    from tests import task_samples as samples

BACKEND = "django_nobroker.backend.NobrokerBackend"


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class EnqueueTests(TestCase):
    def test_writes_one_job(self):
        result = samples.add.using(priority=7, queue_name="sums").enqueue(1, b=2)
        job = Job.objects.get()
        self.assertEqual(result.id, str(job.id))
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual(result.enqueued_at, job.created_at)
        self.assertEqual((job.queue, job.priority, job.backend), ("sums", 7, "default"))
        self.assertEqual(job.task, "tests.task_samples.add")
        self.assertEqual(job.payload, {"args": [1], "kwargs": {"b": 2}})
        self.assertEqual((job.max_attempts, job.attempts), (5, 0))

    def test_costs_one_statement(self):
        samples.add.enqueue(1)
        with self.assertNumQueries(1):
            samples.add.enqueue(1)

    def test_goes_with_the_callers_transaction(self):
        try:
            with transaction.atomic():
                samples.add.enqueue(1)
                raise ValueError
        except ValueError:
            pass
        self.assertFalse(Job.objects.exists())

    def test_attempts_of_the_policy_then_of_the_queue(self):
        with override_settings(NOBROKER={"QUEUES": {"default": {"MAX_ATTEMPTS": 9}}}):
            samples.fail_twice.enqueue()
            samples.add.enqueue(1)
        self.assertEqual([job.max_attempts for job in Job.objects.order_by("id")], [2, 9])

    def test_run_after(self):
        later = timezone.now() + dt.timedelta(hours=1)
        result = samples.add.using(run_after=later).enqueue(1)
        self.assertEqual(Job.objects.get().available_at, later)
        self.assertEqual(default_task_backend.get_result(result.id).task.run_after, later)
        past = samples.add.using(run_after=timezone.now() - dt.timedelta(days=9)).enqueue(1)
        self.assertLessEqual(Job.objects.get(pk=past.id).available_at, timezone.now())

    @override_settings(USE_TZ=False)
    def test_without_time_zones(self):
        later = dt.datetime.now() + dt.timedelta(hours=1)  # noqa: DTZ005
        result = samples.add.using(run_after=later).enqueue(1)
        self.assertIsNone(result.enqueued_at.tzinfo)
        self.assertEqual(default_task_backend.get_result(result.id), result)

    def test_tuples_become_lists_as_in_djangos_own_backends(self):
        result = samples.add.enqueue((1, 2), b=b"text")
        self.assertEqual((result.args, result.kwargs), ([[1, 2]], {"b": "text"}))
        self.assertEqual(Job.objects.get().payload["args"], [[1, 2]])

    def test_what_is_no_json_is_refused_and_nothing_written(self):
        for value, error in (
            (timezone.now(), TypeError), ({1}, TypeError), (object(), TypeError),
            (samples.add, TypeError), (b"\xff", ValueError),
            (float("nan"), SerializationError), ([float("inf")], SerializationError),
            ({1: 2}, SerializationError), ("x" * 9_000_000, SerializationError),
        ):  # fmt: skip
            with self.subTest(value=repr(value)[:40]), self.assertRaises(error):
                samples.add.enqueue(value)
        with self.assertRaises(TypeError):
            default_task_backend.enqueue_many(samples.add, [((1,), {}), ((object(),), {})])
        self.assertFalse(Job.objects.exists())

    def test_any_text_comes_through(self):
        for value in ("\x00", "\ud800", "😀", "\u2028"):
            result = samples.add.enqueue(value)
            self.assertEqual(default_task_backend.get_result(result.id).args, [value])

    def test_queues_that_cannot_be(self):
        for name in ("a b", "", "x" * 129, "ü"):
            with self.subTest(name), self.assertRaises(InvalidTask):
                samples.add.using(queue_name=name)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class EnqueueManyTests(TestCase):
    def test_in_order(self):
        calls = [((number,), {"b": number}) for number in range(50)]
        results = default_task_backend.enqueue_many(samples.add, calls)
        self.assertEqual([result.args for result in results], [[n] for n in range(50)])
        for result in results:
            self.assertEqual(Job.objects.get(pk=result.id).payload["args"], result.args)

    def test_none(self):
        with self.assertNumQueries(0):
            self.assertEqual(default_task_backend.enqueue_many(samples.add, []), [])

    async def test_async(self):
        results = await default_task_backend.aenqueue_many(samples.add, [((1,), {}), ((2,), {})])
        self.assertEqual(len(results), 2)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class ResultTests(TestCase):
    def test_ids_that_are_none(self):
        payload_job = Queue().enqueue(1)
        result = samples.add.enqueue(1)
        for wanted in (
            "", "0", "-1", "+1", " 1", "1 ", "1_0", "01", "1.0", "1e3", "٣", "²", "abc", "\x00",
            f"0{result.id}", str(payload_job.id), str(2**63), "9" * 5000, "1; DROP TABLE x",
            None, [], 1.5,
        ):  # fmt: skip
            with self.subTest(repr(wanted)[:30]), self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(wanted)

    def test_of_another_backend(self):
        result = samples.add.enqueue(1)
        Job.objects.update(backend="other")
        with self.assertRaises(TaskResultDoesNotExist):
            default_task_backend.get_result(result.id)

    def test_each_state(self):
        result = samples.add.enqueue(1)
        jobs = Job.objects.all()
        result.refresh()
        self.assertEqual((result.status, result.is_finished), (TaskResultStatus.READY, False))
        held = Queue().lease_one()
        result.refresh()
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.RUNNING, 1))
        self.assertEqual(result.worker_ids, [held.leased_by])
        self.assertEqual(result.last_attempted_at, Job.objects.get().leased_at)
        transitions.cancel(jobs)
        result.refresh()
        self.assertEqual((result.status, result.is_finished), (TaskResultStatus.FAILED, True))
        self.assertEqual(result.worker_ids, [held.leased_by])
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = result.return_value
        transitions.requeue(jobs)
        result.refresh()
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.READY, 0))

    def test_workers_since_the_last_requeue_and_all_errors(self):
        result = samples.add.enqueue(1)
        queue = Queue(max_attempts=5)
        for text in ("first", "second"):
            queue.nack(queue.lease_one(), error=ValueError(text), delay=0)
        Job.objects.update(max_attempts=3)
        queue.nack(queue.lease_one(), error=ValueError("third"))
        result.refresh()
        self.assertEqual((len(result.errors), result.attempts), (3, 3))
        queue.requeue_dead()
        queue.ack(queue.lease_one())
        result.refresh()
        self.assertEqual((len(result.errors), result.attempts), (3, 1))
        self.assertEqual(result.errors[0].exception_class, ValueError)
        self.assertIn("first", result.errors[0].traceback)

    def test_of_a_task_that_is_gone(self):
        insert('{"args": [1], "kwargs": {}}', task="tests.task_samples.nosuch")
        result = default_task_backend.get_result(str(Job.objects.get().id))
        self.assertEqual(result.task.module_path, "tests.task_samples.nosuch")
        self.assertEqual((result.status, result.args), (TaskResultStatus.READY, [1]))
        with self.assertRaisesMessage(Exception, "nosuch"):
            result.task.call()

    def test_of_a_queue_that_left_the_settings(self):
        result = samples.add.using(queue_name="old").enqueue(1)
        settings = {"default": {"BACKEND": BACKEND, "QUEUES": ["new"]}}
        with override_settings(TASKS=settings):
            self.assertEqual(task_backends["default"].get_result(result.id).task.queue_name, "old")

    def test_of_rows_that_others_wrote(self):
        for payload in ("{broken", "[]", "5", '{"args": 5}', '{"kwargs": []}', "null"):
            insert(payload, task="tests.task_samples.add", result="{broken")
        for job in Job.objects.all():
            self.assertEqual(default_task_backend.get_result(str(job.id)).id, str(job.id))

    def test_classes_of_errors(self):
        result = samples.add.enqueue(1)
        Queue().nack(Queue().lease_one(), error=Job.DoesNotExist("inside of a class"))
        result.refresh()
        [error] = result.errors
        self.assertIs(error.exception_class, Job.DoesNotExist)
        for path, raised in (
            ("subprocess.run", ValueError),
            ("nosuch.Error", ImportError),
            ("tests.test_backend.NoSuch", ImportError),
            ("", ImportError),
            ("a b", ImportError),
        ):
            object.__setattr__(error, "exception_class_path", path)
            with self.subTest(path), self.assertRaises(raised):
                _ = error.exception_class

    def test_a_lost_lease_is_an_error_like_any_other(self):
        insert('{"args": [1], "kwargs": {}}', task="tests.task_samples.add")
        queue = Queue()
        queue.nack(queue.lease_one(), error="a text")
        [error] = default_task_backend.get_result(str(Job.objects.get().id)).errors
        self.assertIn("a text", error.traceback)


@skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
class CheckTests(SimpleTestCase):
    def ids(self, **params):
        with override_settings(TASKS={"default": {"BACKEND": BACKEND, **params}}):
            return [message.id for message in run_checks()]

    def test_good_settings(self):
        self.assertEqual(self.ids(), [])
        self.assertEqual(self.ids(QUEUES=["a", "b"], OPTIONS={"DATABASE": "default"}), [])

    def test_each_fault(self):
        self.assertEqual(self.ids(OPTIONS={"RETRIES": 3}), ["nobroker.E020"])
        self.assertEqual(self.ids(QUEUES=["a b"]), ["nobroker.E021"])
        self.assertEqual(self.ids(OPTIONS={"DATABASE": "nosuch"}), ["nobroker.E022"])


@skipUnless(not SUPPORTED, "Django 5.2 has no django.tasks")
class WithoutTasksTests(SimpleTestCase):
    def test_the_backend_can_be_imported_and_says_what_to_do(self):
        from django.core.exceptions import ImproperlyConfigured

        from django_nobroker.backend import NobrokerBackend

        with self.assertRaisesMessage(ImproperlyConfigured, "Django 6.0"):
            NobrokerBackend("default", {})

    def test_so_does_a_check(self):
        with override_settings(TASKS={"default": {"BACKEND": BACKEND}}):
            self.assertEqual([message.id for message in run_checks()], ["nobroker.E023"])
        with override_settings(TASKS={"default": {"BACKEND": "other.Backend"}}):
            self.assertEqual(run_checks(), [])
