"""Tasks as a worker runs them: results, signals, and what this release does not know."""

from unittest import skipUnless

from django.test import TestCase, TransactionTestCase

from django_nobroker import Queue
from django_nobroker.models import Job
from django_nobroker.tasks import SUPPORTED
from django_nobroker.worker import Worker, WorkerOptions
from tests.rows import insert
from tests.work import Quiet

if SUPPORTED:
    from django.tasks import TaskResultStatus

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
