"""Group commits, and outcomes that the database refuses, once or for good."""

import contextlib
import re
from unittest import mock

from django.db import DataError, OperationalError, connection
from django.db.backends.utils import CursorWrapper
from django.test import TestCase, TransactionTestCase

from django_nobroker import BackoffPolicy, Queue, Reject, Snooze, Worker, transitions
from django_nobroker.models import Attempt, Job
from django_nobroker.transitions import settle
from django_nobroker.worker import applier, link
from tests.bench import Bench
from tests.work import Quiet, fresh, states, work


class GroupTests(Quiet, TestCase):
    def held(self, count):
        """Return a bench that holds so many jobs, and these."""
        Queue().enqueue_many(range(count))
        bench = Bench(concurrency=count)
        return bench, bench.claimer.claim()

    def test_all_that_ended_in_one_go(self):
        bench, held = self.held(50)
        bench.finish(*held)
        self.assertEqual(set(states(*(one.job for one in held))), {"done"})
        self.assertEqual(bench.ledger.stats.succeeded, 50)
        self.assertEqual(len(bench.holdings), 0)

    def test_each_in_its_own_way(self):
        bench, (good, bad, rejected, snoozed, unstarted) = self.held(5)
        for one in (good, bad, rejected, snoozed, unstarted):
            bench.holdings.finished(one)
        bench.settler.settle_group(
            [
                (good, None, 0.1),
                (bad, ValueError("no"), 0.1),
                (rejected, Reject("never"), 0.1),
                (snoozed, Snooze(60), 0.1),
                (unstarted, None, None),
            ],
            bench.link,
        )
        jobs = [fresh(one.job) for one in (good, bad, rejected, snoozed, unstarted)]
        self.assertEqual(
            [(job.state, job.attempts) for job in jobs],
            [("done", 1), ("ready", 1), ("dead", 1), ("ready", 0), ("ready", 0)],
        )
        self.assertEqual(Attempt.objects.count(), 2)
        self.assertEqual(tuple(bench.ledger.stats), (5, 1, 2, 1, 0))
        self.assertEqual(bench.returns, 1)

    def test_what_is_no_longer_held_is_counted_as_lost(self):
        bench, (kept, lost) = self.held(2)
        transitions.cancel(Job.objects.filter(pk=lost.job.pk))
        with self.assertLogs("django_nobroker", "WARNING") as log:
            bench.finish(kept, lost)
        self.assertEqual(states(kept.job, lost.job), ["done", "cancelled"])
        self.assertEqual(tuple(bench.ledger.stats), (2, 1, 0, 0, 1))
        self.assertIn("too late", "\n".join(log.output))

    def test_a_row_that_is_gone(self):
        bench, (kept, gone) = self.held(2)
        Job.objects.filter(pk=gone.job.pk).delete()
        bench.finish(kept, gone, error=ValueError())
        self.assertEqual(bench.ledger.stats.lost_leases, 1)
        self.assertEqual(Attempt.objects.count(), 1)

    def test_nothing_of_a_payload_or_a_message_is_logged(self):
        Queue().enqueue({"card": "4111-canary"})
        bench = Bench()
        with self.assertLogs("django_nobroker", "DEBUG") as log:
            bench.finish(*bench.claimer.claim(), error=ValueError("canary in the message"))
        self.assertNotIn("canary", "\n".join(log.output))
        record = next(record for record in log.records if record.levelname == "WARNING")
        self.assertEqual((record.queue, record.attempt, record.worker), ("default", 1, "bench"))


@contextlib.contextmanager
def failing(*errors):
    """Let the next writes of outcomes fail with these errors, before anything is written."""
    left, real = list(errors), settle.apply

    def apply(alias, verdicts):
        if left:
            raise left.pop(0)
        return real(alias, verdicts)

    with mock.patch.object(settle, "apply", apply):
        yield left


@contextlib.contextmanager
def read_only(writes):
    """Let the database refuse so many writes, on whatever connection, and answer who only reads."""
    left, real = ["read-only"] * writes, CursorWrapper._execute

    def execute(cursor, sql, *args):
        if left and re.search(r"\b(UPDATE|INSERT|DELETE)\b", sql):
            raise OperationalError(left.pop())
        return real(cursor, sql, *args)

    with (
        mock.patch.object(CursorWrapper, "_execute", execute),
        mock.patch.object(link, "LONGEST_PAUSE", 0.001),
    ):
        yield left


class RefusedTests(Quiet, TransactionTestCase):
    """The write of an outcome fails; the worker lives, and no job is lost."""

    def test_the_database_was_away(self):
        job = Queue().enqueue(1)
        with failing(OperationalError("gone away")) as left:
            stats = work(lambda job: None)
        self.assertEqual(left, [])
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("done", 1))
        self.assertEqual(stats.succeeded, 1)

    def test_the_database_was_read_only_for_a_while(self):
        jobs = Queue().enqueue_many(range(3))
        bench = Bench(concurrency=3)
        held = bench.claimer.claim()
        with read_only(10 * applier.REFUSALS) as left:
            bench.finish(*held)
        self.assertEqual(left, [])
        self.assertEqual(set(states(*jobs)), {"done"})
        self.assertEqual(tuple(bench.ledger.stats), (3, 3, 0, 0, 0))

    def test_an_outcome_that_cannot_be_stored(self):
        job = Queue().enqueue(1)
        with failing(ValueError("no such thing")) as left:
            work(lambda job: None)
        self.assertEqual(left, [])
        job = fresh(job)
        self.assertEqual((job.state, job.attempts), ("ready", 1))
        self.assertIn("could not be stored", job.last_error)
        self.assertEqual(job.failed_attempts.count(), 1)

    def test_nor_can_the_record_of_that(self):
        job = Queue().enqueue(1)
        with failing(ValueError("no"), ValueError("nor that")):
            work(lambda job: None, concurrency=1)
        # It keeps its lease, and comes back when that runs out.
        self.assertEqual(states(job), ["leased"])

    def test_one_bad_outcome_in_a_group(self):
        jobs = Queue().enqueue_many(range(20))
        bench = Bench(concurrency=20)
        held = bench.claimer.claim()
        with failing(DataError("one of them")):
            bench.finish(*held)
        self.assertEqual(set(states(*jobs)), {"done"})
        self.assertEqual(bench.ledger.stats.succeeded, 20)

    def test_a_group_too_large_for_one_statement(self):
        jobs = Queue().enqueue_many(range(100))
        bench = Bench(concurrency=100)
        error = ValueError("x" * 2_000_000)
        bench.finish(*bench.claimer.claim(), error=error)
        self.assertEqual(set(states(*jobs)), {"ready"})
        self.assertEqual(Attempt.objects.count(), 100)

    def test_a_bad_backoff_of_the_users_own(self):

        class Wild(BackoffPolicy):
            def delay(self, attempt):
                raise ZeroDivisionError

        queue = Queue(backoff=Wild())
        job = queue.enqueue(1)

        def fail(job):
            raise ValueError("no luck")

        worker = Worker(queue, fail, max_jobs=1, poll_interval=0.01, handle_signals=False)
        self.assertEqual(worker.run().failed, 1)
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 1))
        self.assertFalse(connection.in_atomic_block)
