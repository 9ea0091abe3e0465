"""Leases that cross: taken twice by one worker, taken by another, ended late, answered late."""

import threading
import time
from unittest import mock

from django.db import OperationalError
from django.test import TestCase, TransactionTestCase

from django_nobroker import LeaseLost, Queue, Reject, Snooze, transitions
from django_nobroker.clock import Ahead
from django_nobroker.models import Job
from django_nobroker.transitions import settle, sweep
from django_nobroker.worker import crew
from django_nobroker.worker.parts import Part
from tests.bench import Bench
from tests.rows import HOUR, alter, bring_forward, expire, snapshot
from tests.work import DEADLINE, Background, Quiet, fresh, states, worker


def near(*held, left=1.0):
    """Let leases have run down to so many seconds, as far as their worker knows."""
    for one in held:
        one.deadline = time.monotonic() + left


class LeasedAgainTests(Quiet, TestCase):
    """A job is cancelled and requeued while its handler runs: its worker leases it again."""

    def setUp(self):
        super().setUp()
        Queue().enqueue(1)
        self.bench = Bench(concurrency=2)
        [self.older] = self.bench.claimer.claim()
        self.cancels = []
        self.older.cancel = lambda: self.cancels.append(1)
        job = Job.objects.filter(pk=self.older.job.pk)
        transitions.cancel(job)
        transitions.requeue(job)
        [self.newer] = self.bench.claimer.claim()
        self.assertEqual(self.newer.job, self.older.job)

    def outcome(self):
        """Return what was counted: succeeded, failed and lost."""
        stats = self.bench.ledger.stats
        return stats.succeeded, stats.failed, stats.lost_leases

    def test_the_older_lease_is_lost_and_its_handler_told(self):
        self.assertTrue(self.older.is_lost and self.older.job.lease_lost)
        self.assertEqual(self.cancels, [1])
        self.assertFalse(self.newer.is_lost or self.newer.job.lease_lost)

    def test_both_handlers_take_up_room(self):
        self.assertEqual((len(self.bench.holdings), self.bench.holdings.unfinished), (2, 2))
        Queue().enqueue(2)
        self.bench.claimer.lanes.expire()
        self.assertEqual(self.bench.claimer.claim(), [])

    def test_the_end_of_the_older_does_not_let_go_of_the_newer(self):
        self.bench.finish(self.older)
        self.assertEqual(self.bench.holdings.all(), [self.newer])
        self.assertEqual(fresh(self.newer.job).state, "leased")
        self.assertEqual(self.outcome(), (0, 0, 1))

    def test_the_newer_is_renewed_before_and_after_that(self):
        for end in (lambda: None, lambda: self.bench.finish(self.older)):
            end()
            alter(self.newer.job, lease_expires_at=Ahead(1))
            near(self.older, self.newer)
            self.bench.keeper.renew()
            row = fresh(self.newer.job)
            self.assertGreater((row.lease_expires_at - row.leased_at).total_seconds(), 25)
            self.assertGreater(self.newer.deadline - time.monotonic(), 20)
            self.assertFalse(self.newer.lapsed)

    def test_the_older_is_not_renewed_with_it(self):
        near(self.older, self.newer)
        self.bench.keeper.renew()
        self.assertLess(self.older.deadline - time.monotonic(), 2)
        self.assertTrue(self.older.lapsed)

    def test_what_the_older_returns_counts_as_lost_though_the_newer_ended_first(self):
        self.bench.finish(self.newer)
        self.bench.finish(self.older, error=ValueError())
        self.assertEqual(fresh(self.newer.job).state, "done")
        self.assertEqual(self.outcome(), (1, 0, 1))
        self.assertEqual((len(self.bench.holdings), self.bench.holdings.unfinished), (0, 0))

    def test_and_though_both_end_at_once(self):
        for one in (self.older, self.newer):
            self.bench.holdings.finished(one)
        self.bench.settler.settle_group(
            [(self.older, None, 0.1), (self.newer, None, 0.1)], self.bench.link
        )
        self.assertEqual(self.outcome(), (1, 0, 1))
        self.assertEqual([held for held, _, _ in self.bench.finished], [self.newer])

    def test_both_fail_in_one_group(self):
        self.bench.finish(self.older, self.newer, error=ValueError())
        self.assertEqual(self.outcome(), (0, 1, 1))
        self.assertEqual(self.newer.job.failed_attempts.count(), 1)


class ReadAgainTests(Quiet, TestCase):
    """A handler that reads its job anew does not come to hold what another holds by now."""

    def setUp(self):
        super().setUp()
        Queue().enqueue(1)
        self.bench = Bench()
        [self.held] = self.bench.claimer.claim()
        self.job = self.held.job

    def take_away(self):
        """Let another lease the job; then have it read again."""
        expire(self.job)
        transitions.reap("default", lambda name: Queue().options, in_touch=3600)
        bring_forward(self.job)
        theirs = Queue().lease_one()
        self.job.refresh_from_db()
        self.assertEqual(self.job.fence, theirs.fence)
        return theirs

    def test_it_settles_nothing(self):
        self.take_away()
        before = snapshot(self.job)
        for error in (None, ValueError(), Snooze(60), Reject()):
            with self.subTest(error=repr(error)):
                self.bench.settler.settle_group([(self.held, error, 0.1)], self.bench.link)
                self.assertEqual(snapshot(self.job), before)
        self.bench.settler.settle_group([(self.held, None, None)], self.bench.link)
        self.assertEqual(snapshot(self.job), before)
        self.assertEqual(self.bench.ledger.stats.lost_leases, 5)

    def test_it_renews_nothing(self):
        self.take_away()
        before = snapshot(self.job)
        near(self.held)
        self.bench.keeper.renew()
        self.assertEqual(snapshot(self.job), before)
        self.assertTrue(self.held.is_lost)

    def test_it_notes_no_progress(self):
        self.take_away()
        before = snapshot(self.job)
        with self.assertRaises(LeaseLost):
            settle.progress("default", self.job, 0.5)
        self.assertEqual(snapshot(self.job), before)

    def test_who_holds_it_by_now_settles_it(self):
        theirs = self.take_away()
        self.bench.finish(self.held, error=ValueError())
        Queue().ack(theirs)
        self.assertEqual(fresh(self.job).state, "done")

    def test_while_it_is_held_reading_it_changes_nothing(self):
        self.job.refresh_from_db()
        near(self.held)
        self.bench.keeper.renew()
        self.assertFalse(self.held.is_lost)
        self.bench.finish(self.held)
        self.assertEqual(fresh(self.job).state, "done")


class HeldUpTests(Quiet, TestCase):
    """Ending leases took so long that their holders may have had no chance to renew."""

    def expired(self):
        Queue().enqueue(1)
        job = Queue().lease_one()
        expire(job)
        return job

    def in_touch(self, bench):
        """Let the keeper have been in touch with the database for long."""
        bench.keeper.beat()
        bench.keeper._in_touch_since -= HOUR
        bench.keeper._due.clear()

    def test_none_is_ended_nor_for_a_whole_lease_after_that(self):
        job = self.expired()
        bench = Bench()
        self.in_touch(bench)
        with mock.patch.object(sweep, "PATIENCE", -1):
            bench.keeper.beat()
        bench.keeper._due.clear()
        bench.keeper.beat()
        self.assertEqual(states(job), ["leased"])
        self.assertEqual(bench.returns, 0)
        self.in_touch(bench)
        bench.keeper.beat()
        self.assertEqual(states(job), ["ready"])

    def test_a_repeated_try_has_been_under_way_since_the_first(self):
        self.expired()
        bench = Bench()
        self.in_touch(bench)
        asked = []
        lost = [OperationalError("lost against another")]

        def reap(*args, **kwargs):
            asked.append(kwargs["asked"])
            if lost:
                raise lost.pop()
            return 0

        def run(work):
            try:
                return work()
            except OperationalError:
                return work()

        with (
            mock.patch.object(transitions, "reap", reap),
            mock.patch.object(bench.keeper._link, "run", run),
        ):
            bench.keeper.beat()
        self.assertEqual(len(asked), 2)
        self.assertEqual(*asked)


class LateAnswerTests(Quiet, TransactionTestCase):
    def test_what_is_leased_while_it_ends_is_given_back(self):
        """The answer to the last claim comes when all that ran has ended."""
        asked, answer = threading.Event(), threading.Event()
        self.addCleanup(answer.set)
        lease, join = transitions.lease, Part.join

        def lease_late(alias, claim):
            jobs = lease(alias, claim)
            asked.set()
            answer.wait(DEADLINE)
            return jobs

        def join_part(part, timeout=None):
            if part.name == "nobroker-claimer":
                answer.set()
            return join(part, timeout)

        job = Queue().enqueue(1)
        with (
            mock.patch.object(transitions, "lease", lease_late),
            mock.patch.object(Part, "join", join_part),
            mock.patch.multiple(crew, FEEDER_GRACE=0.0, PART_GRACE=DEADLINE),
            Background(worker(lambda job: None, burst=False)) as up,
        ):
            self.assertTrue(asked.wait(DEADLINE))
        self.assertIsNone(up.error)
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 0))
