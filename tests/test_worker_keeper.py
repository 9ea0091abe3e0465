"""What depends on time: renewed, lost, reaped, pruned, shown. The rows are moved, not the clock."""

import time
from datetime import UTC, datetime, timedelta

from django.test import TestCase, override_settings

from django_nobroker import Queue, transitions
from django_nobroker.clock import Ahead
from django_nobroker.models import Job, Minute, WorkerProcess
from tests.bench import Bench
from tests.rows import HOUR, age, alter, expire
from tests.work import Quiet, fresh, states


class KeeperCase(Quiet, TestCase):
    def held(self, count=1, **options):
        """Return a bench that holds so many jobs, and these."""
        Queue().enqueue_many(range(count))
        bench = Bench(concurrency=count, **options)
        return bench, bench.claimer.claim()

    def in_touch(self, bench, seconds=HOUR):
        """Let the keeper have been in touch with the database for so long."""
        bench.keeper.beat()
        bench.keeper._in_touch_since -= seconds
        bench.keeper._due.clear()


class RenewTests(KeeperCase):
    def near(self, *held, left=1.0):
        """Let the leases have run down to so many seconds."""
        for one in held:
            one.deadline = time.monotonic() + left
            alter(one.job, lease_expires_at=Ahead(left))

    def test_a_lease_that_is_young_is_left_alone(self):
        bench, [held] = self.held()
        before = fresh(held.job).lease_expires_at
        bench.keeper.beat()
        self.assertEqual(fresh(held.job).lease_expires_at, before)

    def test_all_that_is_held_started_or_not(self):
        bench, held = self.held(3)
        held[0].started = time.monotonic()
        self.near(*held)
        bench.keeper.beat()
        for one in held:
            row = fresh(one.job)
            self.assertGreater((row.lease_expires_at - row.leased_at).total_seconds(), 25)
            self.assertEqual((row.state, row.fence), ("leased", one.job.fence))
            self.assertFalse(one.lapsed)
            self.assertGreater(one.deadline - time.monotonic(), 20)

    def test_one_that_expired_and_nobody_took_is_still_ours(self):
        bench, [held] = self.held()
        self.near(held, left=-HOUR)
        bench.holdings.lapsed_now()
        bench.keeper.renew()
        self.assertFalse(held.job.lease_lost)
        bench.finish(held)
        self.assertEqual(states(held.job), ["done"])

    def test_one_that_is_lost_is_said_once(self):
        bench, (kept, lost) = self.held(2)
        self.near(kept, lost)
        cancelled = []
        lost.cancel = lambda: cancelled.append(1)
        transitions.cancel(Job.objects.filter(pk=lost.job.pk))
        with self.assertLogs("django_nobroker", "WARNING") as log:
            bench.keeper.renew()
            bench.keeper.renew()
        self.assertEqual(len(log.output), 1)
        self.assertTrue(lost.job.lease_lost)
        self.assertFalse(kept.job.lease_lost)
        self.assertEqual(cancelled, [1])
        bench.finish(kept, lost)
        self.assertEqual(bench.ledger.stats.lost_leases, 1)

    def test_one_that_runs_long_is_warned_of_once(self):
        bench, [held] = self.held()
        held.started = time.monotonic() - 10 * HOUR
        with self.assertLogs("django_nobroker", "WARNING") as log:
            for _ in range(2):
                self.near(held)
                bench.keeper.renew()
        self.assertEqual(len(log.output), 1)
        self.assertIn("10 times", log.output[0])


class ReapTests(KeeperCase):
    def expired(self, count=3):
        queue = Queue()
        queue.enqueue_many(range(count))
        jobs = queue.lease(count)
        expire(*jobs)
        return jobs

    def test_others_that_expired(self):
        jobs = self.expired()
        bench = Bench()
        self.in_touch(bench)
        bench.keeper.beat()
        for job in jobs:
            job = fresh(job)
            self.assertEqual((job.state, job.attempts, job.lease_losses), ("ready", 1, 1))
            self.assertIn("lease expired, held by", job.last_error)
        self.assertEqual(bench.returns, 1)

    def test_not_before_it_has_been_in_touch_for_a_whole_lease(self):
        jobs = self.expired()
        bench = Bench()
        self.in_touch(bench, seconds=5)
        bench.keeper.beat()
        self.assertEqual(states(*jobs), ["leased"] * 3)

    def test_nor_after_it_has_been_stopped_itself(self):
        jobs = self.expired()
        bench = Bench()
        self.in_touch(bench)
        bench.keeper._last_beat -= HOUR
        bench.keeper.beat()
        self.assertEqual(states(*jobs), ["leased"] * 3)

    def test_the_last_attempt_is_dead(self):
        [job] = self.expired(1)
        alter(job, attempts=5)
        bench = Bench()
        self.in_touch(bench)
        bench.keeper.beat()
        self.assertEqual(states(job), ["dead"])
        self.assertIn("lease expired", fresh(job).failed_attempts.get().message)

    def test_only_of_the_queues_it_serves(self):
        jobs = self.expired()
        bench = Bench(queues=["other"])
        self.in_touch(bench)
        bench.keeper.beat()
        self.assertEqual(states(*jobs), ["leased"] * 3)


@override_settings(
    NOBROKER={
        "KEEP_DONE": 60,
        "QUEUES": {
            "long": {"KEEP_DONE": None},
            "dead": {"KEEP_DEAD": 60},
            "short": {"KEEP_DONE": 0},
        },
    }
)
class PruneTests(KeeperCase):
    def settled(self, name, state):
        [job] = Queue(name).enqueue_many([1])
        alter(job, state=state, finished_at=Ahead(0))
        return job

    def test_what_has_been_kept_for_its_time(self):
        cases = {
            ("a", "done"): None,
            ("a", "cancelled"): None,
            ("a", "dead"): "dead",
            ("long", "done"): "done",
            ("long", "dead"): "dead",
            ("dead", "dead"): None,
            ("dead", "done"): None,
        }
        jobs = [self.settled(*case) for case in cases]
        age(*jobs, seconds=3600)
        Bench().keeper.beat()
        self.assertEqual(states(*jobs), list(cases.values()))

    def test_nothing_before_its_time(self):
        jobs = [self.settled("a", "done"), self.settled("dead", "dead")]
        age(*jobs, seconds=30)
        Bench().keeper.beat()
        self.assertEqual(states(*jobs), ["done", "dead"])

    def test_waiting_and_leased_jobs_never(self):
        ready = Queue("a").enqueue(1)
        leased = Queue("b").enqueue(1)
        Queue("b").lease_one()
        Bench().keeper.beat()
        self.assertEqual(states(ready, leased), ["ready", "leased"])

    def test_more_than_a_batch_goes_on_at_the_next_beat(self):
        Queue("a").enqueue_many(range(1100))
        Job.objects.update(state="done", finished_at=Ahead(-3600))
        bench = Bench()
        for _ in range(3):
            bench.keeper.beat()
        self.assertFalse(Job.objects.exists())


class ShowTests(KeeperCase):
    def test_a_row_for_people(self):
        bench, _ = self.held(2)
        bench.keeper.beat()
        row = WorkerProcess.objects.get()
        self.assertEqual(row.identity, "bench")
        bench.keeper._due.clear()
        bench.keeper.beat()
        self.assertEqual(WorkerProcess.objects.get().running, 2)
        bench.keeper.sign_off()
        self.assertFalse(WorkerProcess.objects.exists())

    def test_a_row_that_was_taken_off_is_written_again(self):
        bench = Bench()
        bench.keeper.beat()
        WorkerProcess.objects.all().delete()
        bench.keeper._due.clear()
        bench.keeper.beat()
        self.assertTrue(WorkerProcess.objects.filter(pk="bench").exists())

    def test_workers_not_heard_of_for_long_are_taken_off(self):
        WorkerProcess.objects.create(identity="gone", queues="*", heartbeat_at=Ahead(-HOUR))
        WorkerProcess.objects.create(identity="late", queues="*", heartbeat_at=Ahead(-60))
        Bench().keeper.beat()
        listed = set(WorkerProcess.objects.values_list("identity", flat=True))
        self.assertEqual(listed, {"late", "bench"})

    def test_minutes_of_last_week_are_forgotten(self):
        now = datetime.now(UTC)
        for days in (8, 6):
            Minute.objects.create(queue="default", minute=now - timedelta(days=days))
        bench = Bench()
        bench.keeper.beat()
        [kept] = Minute.objects.all()
        self.assertLess(now - kept.minute, timedelta(days=7))

    def test_minutes_are_written_at_the_end(self):
        bench, held = self.held(3)
        bench.finish(*held)
        bench.keeper.sign_off()
        self.assertEqual(sum(Minute.objects.values_list("done", flat=True)), 3)
