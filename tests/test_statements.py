"""The cost of the main way of a job, in statements; transaction control is not counted."""

import threading
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.backends.signals import connection_created
from django.test import TestCase, TransactionTestCase, tag

from django_nobroker import Queue, sql
from django_nobroker.models import Job
from tests.work import Quiet, work

CONTROL = (
    "SAVEPOINT",
    "RELEASE",
    "ROLLBACK",
    "BEGIN",
    "COMMIT",
    "START TRANSACTION",
    "SET TRANSACTION",
)


class Counter:
    """An execute wrapper that keeps the statements of every connection that carries it."""

    def __init__(self):
        self.statements = []
        self.threads = set()
        self._lock = threading.Lock()

    def __call__(self, execute, statement, params, many, context):
        if not str(statement).lstrip().upper().startswith(CONTROL):
            with self._lock:
                self.statements.append(str(statement))
                self.threads.add(threading.get_ident())
        return execute(statement, params, many, context)

    def __len__(self):
        return len(self.statements)

    def __str__(self):
        return "\n".join(statement[:160] for statement in self.statements)


@contextmanager
def counted():
    """Count the statements of this thread's connection and of all that are opened meanwhile."""
    counter = Counter()

    def attach(*, connection, **kwargs):
        if counter not in connection.execute_wrappers:
            connection.execute_wrappers.append(counter)

    connection_created.connect(attach)
    try:
        with connection.execute_wrapper(counter):
            yield counter
    finally:
        connection_created.disconnect(attach)


class Fast:
    """Mixin: these are promises of the databases' own SQL, not of the plain ORM path."""

    def setUp(self):
        super().setUp()
        if type(sql.dialect(connection)) is sql.Dialect:
            self.skipTest("the plain ORM path goes row by row")

    def assert_at_most(self, most, counter):
        self.assertLessEqual(len(counter), most, str(counter))


class EnqueueTests(Fast, TestCase):
    def test_one_job_is_one_statement(self):
        for options in ({}, {"delay": 60}, {"priority": 5, "subject": "a"}):
            with self.subTest(options=options), counted() as counter:
                Queue().enqueue({"to": 1}, **options)
            self.assertEqual(len(counter), 1, str(counter))

    def test_and_so_it_is_inside_a_transaction(self):
        with transaction.atomic(), counted() as counter:
            Queue().enqueue({"to": 1})
        self.assertEqual(len(counter), 1, str(counter))

    def test_reading_the_job_back_costs_nothing(self):
        job = Queue().enqueue({"to": 1})
        with counted() as counter:
            self.assertEqual((job.payload, job.state, job.attempts), ({"to": 1}, "ready", 0))
            self.assertIsNotNone(job.id)
        self.assertEqual(len(counter), 0, str(counter))

    def test_a_thousand_are_at_most_four(self):
        with counted() as counter:
            jobs = Queue().enqueue_many([{"to": n} for n in range(1000)])
        self.assert_at_most(4, counter)
        self.assertEqual(Job.objects.count(), 1000)
        self.assertEqual(len({job.id for job in jobs}), 1000)

    def test_none_at_all(self):
        with counted() as counter:
            Queue().enqueue_many([])
        self.assertEqual(len(counter), 0, str(counter))


class InlineTests(Fast, Quiet, TestCase):
    def test_the_counter_counts(self):
        with counted() as counter:
            Job.objects.count()
            with transaction.atomic():
                Job.objects.count()
        self.assertEqual(len(counter), 2)

    def test_a_batch_by_hand(self):
        queue = Queue()
        queue.enqueue_many(range(1000))
        with counted() as counter:
            jobs = queue.lease(1000)
        self.assertEqual(len(jobs), 1000)
        self.assert_at_most(4, counter)


@tag("alone")
class WorkerTests(Fast, Quiet, TransactionTestCase):
    def drain(self, handler, **options):
        Queue().enqueue_many(range(1000))
        with counted() as counter:
            stats = work(handler, **options)
        self.assertEqual(stats.succeeded, 1000)
        # Of the claimer, the settler and the keeper at the least: all were counted.
        self.assertGreaterEqual(len(counter.threads), 3)
        return counter

    def test_a_thousand_plain_jobs_are_at_most_sixty(self):
        self.assert_at_most(60, self.drain(lambda job: None))

    def test_on_several_threads_as_well(self):
        self.assert_at_most(60, self.drain(lambda job: None, concurrency=4))

    def test_a_thousand_async_jobs_are_at_most_sixty(self):
        async def nothing(job):
            pass

        self.assert_at_most(60, self.drain(nothing, concurrency=4))

    def test_not_kept_they_cost_no_more_than_twice(self):
        with self.settings(NOBROKER={"KEEP_DONE": 0}):
            self.assert_at_most(120, self.drain(lambda job: None))
        self.assertFalse(Job.objects.exists())
