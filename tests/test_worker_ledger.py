"""What a worker counts: its totals, and the minutes that it adds to its queues'."""

from datetime import UTC, datetime
from unittest import mock

from django.db import OperationalError
from django.test import TestCase

from django_nobroker import Queue, Reject, Snooze
from django_nobroker.models import Minute
from django_nobroker.worker import ledger
from django_nobroker.worker.handlers import Fault
from tests.bench import Bench
from tests.work import Quiet

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class TotalsTests(Quiet, TestCase):
    def test_each_outcome(self):
        for error, expected in (
            (None, (1, 1, 0, 0, 0)),
            (ValueError(), (1, 0, 1, 0, 0)),
            (Reject(), (1, 0, 1, 1, 0)),
            (Snooze(5), (1, 0, 0, 0, 0)),
        ):
            with self.subTest(error=repr(error)):
                bench = Bench()
                Queue().enqueue(1)
                bench.finish(*bench.claimer.claim(), error=error)
                self.assertEqual(tuple(bench.ledger.stats), expected)


class TakenTests(Quiet, TestCase):
    """How many jobs count against `max_jobs`: not those that were given back untried."""

    def test_each_outcome(self):
        for error, expected in ((None, 1), (ValueError(), 1), (Reject(), 1), (Snooze(5), 1)):
            with self.subTest(error=repr(error)):
                bench = Bench()
                Queue().enqueue(1)
                held = bench.claimer.claim()
                self.assertEqual(bench.ledger.taken, 1)
                bench.finish(*held, error=error)
                self.assertEqual(bench.ledger.taken, expected)

    def test_one_that_is_given_back(self):
        Queue().enqueue(1)
        bench = Bench(max_jobs=1)
        bench.finish(*bench.claimer.claim(), seconds=None)
        self.assertEqual((bench.ledger.taken, bench.ledger.stats.leased), (0, 1))
        bench.finish(*bench.claimer.claim())
        self.assertEqual((bench.ledger.taken, bench.ledger.stats.leased), (1, 2))

    def test_one_whose_task_is_not_known_here(self):
        Queue().enqueue(1)
        bench = Bench()
        [held] = bench.claimer.claim()
        held.fault = Fault.UNKNOWN
        bench.finish(held, error=LookupError())
        self.assertEqual(bench.ledger.taken, 0)


class MinuteTests(Quiet, TestCase):
    def worked(self, *errors):
        """Return a ledger that knows of jobs which ended so."""
        bench = Bench()
        for error in errors:
            Queue().enqueue(1)
            bench.finish(*bench.claimer.claim(), error=error, seconds=2.0)
        return bench.ledger

    def total(self, name):
        return sum(Minute.objects.values_list(name, flat=True))

    def test_written_once(self):
        book = self.worked(None, None, ValueError(), Reject())
        book.write("default")
        book.write("default")
        self.assertEqual([self.total(name) for name in ("done", "failed", "dead")], [2, 2, 1])
        self.assertEqual(self.total("run_seconds"), 8.0)
        self.assertGreaterEqual(self.total("wait_seconds"), 0.0)
        self.assertEqual(set(Minute.objects.values_list("queue", flat=True)), {"default"})

    def test_added_to_what_another_worker_wrote(self):
        for _ in range(2):
            ledger.add_to_minute("default", "a", NOON, {"done": 2, "run_seconds": 0.5})
        ledger.add_to_minute("default", "b", NOON, {"done": 1})
        row = Minute.objects.get(queue="a")
        self.assertEqual((row.done, row.failed, row.run_seconds, row.minute), (4, 0, 1.0, NOON))

    def test_what_could_not_be_written_is_kept(self):
        book = self.worked(None, ValueError())
        broken = mock.patch.object(ledger, "add_to_minute", side_effect=OperationalError("away"))
        with broken, self.assertRaises(OperationalError):
            book.write("default")
        self.assertFalse(Minute.objects.exists())
        book.write("default")
        self.assertEqual((self.total("done"), self.total("failed")), (1, 1))

    def test_nothing_done_writes_nothing(self):
        self.worked().write("default")
        self.assertFalse(Minute.objects.exists())
