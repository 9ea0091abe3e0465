"""What happens by the passing of time: leases end, and what was settled long ago is deleted."""

import time
from datetime import timedelta

from django.test import TestCase

from django_nobroker import BackoffPolicy, Queue, conf, transitions
from django_nobroker.models import Attempt, Job
from django_nobroker.transitions import sweep

from .rows import age, alter, bring_forward, expire, insert, snapshot
from .work import Quiet

LONG = 1e9
OPTIONS = conf.QueueOptions(backoff=BackoffPolicy(base=100, jitter=0))
OLD = "2000-01-01 00:00:00"


def reap(in_touch=LONG, options=lambda name: OPTIONS, **kwargs):
    return transitions.reap("default", options, in_touch=in_touch, **kwargs)


def leased(count=1, queue="default", **terms):
    Queue(queue).enqueue_many(range(count), **terms)
    return Queue(queue).lease(count)


class ReapTests(Quiet, TestCase):
    def test_ready_again_after_the_backoff(self):
        [held] = leased()
        expire(held)
        self.assertEqual(reap(), 1)
        job = Queue().get(id=held.id)
        self.assertEqual((job.state, job.attempts, job.fence), ("ready", 1, 2))
        self.assertEqual((job.lease_losses, job.leased_by, job.lease_expires_at), (1, "", None))
        self.assertEqual(job.last_error, f"LeaseLost: lease expired, held by {held.leased_by}")
        attempt = Attempt.objects.get()
        self.assertAlmostEqual(job.available_at, attempt.ended_at + timedelta(seconds=100),
                               delta=timedelta(seconds=5))  # fmt: skip
        self.assertEqual((attempt.number, attempt.fence), (1, held.fence))
        self.assertEqual((attempt.worker, attempt.message), (held.leased_by, job.last_error))

    def test_dead_with_the_reason_when_attempts_are_used_up(self):
        [held] = leased(max_attempts=1)
        expire(held)
        self.assertEqual(reap(), 1)
        job = Queue().dlq()[0]
        self.assertEqual(job, held)
        self.assertIn("lease expired", job.last_error)
        self.assertIsNotNone(job.finished_at)

    def test_it_is_said(self):
        [held] = leased()
        expire(held)
        with self.assertLogs("django_nobroker", "WARNING") as logs:
            reap()
        self.assertIn(str(held), logs.output[0])
        self.assertEqual((logs.records[0].job_id, logs.records[0].attempt), (held.id, 1))

    def test_a_crash_each_time_ends_in_the_dead_letters(self):
        job = Queue().enqueue({}, max_attempts=3)
        for _ in range(3):
            bring_forward(job)
            expire(Queue().lease_one())
            reap()
        job = Queue().get(id=job.id)
        self.assertEqual((job.state, job.attempts, job.lease_losses), ("dead", 3, 3))
        self.assertEqual(job.failed_attempts.count(), 3)

    def test_what_has_time_left_is_left_alone(self):
        leased(3)
        self.assertEqual(reap(), 0)
        self.assertEqual(Queue().stats().leased, 3)

    def test_only_once_in_touch_for_a_whole_timeout(self):
        [held] = leased()
        expire(held)
        self.assertEqual(reap(in_touch=29.9), 0)
        self.assertEqual(Queue().get(id=held.id).state, "leased")
        self.assertEqual(reap(in_touch=30), 1)

    def test_each_queue_by_its_own_timeout(self):
        for name in ("quick", "slow"):
            expire(*leased(queue=name))
        timeouts = {"quick": 1.0, "slow": 900.0}
        done = reap(5, lambda name: conf.QueueOptions(visibility_timeout=timeouts[name]))
        self.assertEqual(done, 1)
        self.assertEqual(Queue("slow").stats().leased, 1)

    def test_named_queues_only(self):
        for name in ("a", "b"):
            expire(*leased(queue=name))
        self.assertEqual(reap(queues=["b"]), 1)
        self.assertEqual(Queue("a").stats().leased, 1)
        self.assertEqual(reap(queues=[]), 0)

    def test_in_batches(self):
        expire(*leased(sweep.REAP_BATCH + 5))
        self.assertEqual(reap(), sweep.REAP_BATCH)
        self.assertEqual(reap(), 5)
        self.assertEqual(reap(), 0)

    def test_nothing_if_it_was_held_up(self):
        """By a lock, say: others may have waited as long to renew what they hold."""
        jobs = leased(2)
        expire(*jobs)
        before = [snapshot(job) for job in jobs]
        patience = OPTIONS.visibility_timeout * sweep.PATIENCE
        with self.assertRaises(transitions.HeldUp):
            reap(asked=time.monotonic() - patience - 0.001)
        self.assertEqual([snapshot(job) for job in jobs], before)
        self.assertEqual(reap(asked=time.monotonic() - patience / 2), 2)

    def test_the_shortest_timeout_says_how_long_that_is(self):
        for name in ("quick", "slow"):
            expire(*leased(queue=name))
        timeouts = {"quick": 40.0, "slow": 900.0}

        def reap_late(**kwargs):
            options = lambda name: conf.QueueOptions(visibility_timeout=timeouts[name])  # noqa: E731
            return reap(options=options, asked=time.monotonic() - 20, **kwargs)

        self.assertRaises(transitions.HeldUp, reap_late)
        self.assertEqual(reap_late(queues=["slow"]), 1)
        self.assertEqual(Queue("quick").stats().leased, 1)

    def test_rows_of_other_programs(self):
        insert("{broken", state="leased", lease_expires_at=OLD, leased_at=OLD)
        insert("{}", state="leased", lease_expires_at=OLD, attempts=32767, max_attempts=32767)
        insert("{}", state="leased", lease_expires_at=OLD, fence=2**62 - 1, lease_losses=32767)
        insert("{}", state="leased", lease_expires_at=OLD, leased_by="x" * 190)
        expire(*leased(5))
        self.assertEqual(reap(), 9)
        self.assertEqual(Queue().stats()._replace(ready=0, delayed=0)[2:], (0, 0, 1, 0, 9))
        self.assertEqual(len(Queue().list_jobs()), 9)
        self.assertIn("nobody known", Job.objects.filter(attempts=0).first().last_error)


class PruneTests(TestCase):
    def settled(self, state, queue="default", seconds=None, count=1):
        jobs = Queue(queue).enqueue_many(range(count))
        for job in jobs:
            alter(job, state=state, finished_at=OLD + "Z")
            if seconds is not None:
                age(job, seconds=seconds)
        return jobs

    def prune(self, default=OPTIONS, queues=None, **kwargs):
        return transitions.prune("default", default, queues or {}, **kwargs)

    def left(self):
        return sorted(Job.objects.values_list("state", flat=True))

    def test_done_and_cancelled_after_their_time(self):
        for state in ("done", "cancelled", "dead"):
            self.settled(state, seconds=86300)
            self.settled(state, seconds=86500)
        self.assertEqual(self.prune(), 2)
        self.assertEqual(self.left(), ["cancelled", "dead", "dead", "done"])

    def test_dead_letters_only_if_they_have_a_time(self):
        self.settled("dead")
        self.assertEqual(self.prune(), 0)
        self.assertEqual(self.prune(conf.QueueOptions(keep_dead=3600)), 1)

    def test_none_keeps_for_ever(self):
        self.settled("done")
        self.assertEqual(self.prune(conf.QueueOptions(keep_done=None)), 0)

    def test_each_queue_by_its_own_times(self):
        for name in ("a", "b", "c"):
            self.settled("done", queue=name, seconds=3600)
        queues = {
            "a": conf.QueueOptions(keep_done=60),
            "b": conf.QueueOptions(keep_done=None),
        }
        self.assertEqual(self.prune(queues=queues), 1)
        self.assertEqual(self.prune(conf.QueueOptions(keep_done=1), queues=queues), 1)
        self.assertEqual(Job.objects.get().queue, "b")

    def test_live_jobs_are_never_touched(self):
        for job in Queue().enqueue_many([1, 2]):
            alter(job, created_at=OLD + "Z", available_at=OLD + "Z")
        Queue().lease_one()
        forgets = conf.QueueOptions(keep_done=0, keep_dead=0)
        self.assertEqual(self.prune(forgets), 0)
        self.assertEqual(self.left(), ["leased", "ready"])

    def test_attempts_go_with_their_job(self):
        [held] = leased(max_attempts=1)
        Queue().nack(held, error="x")
        [other] = leased(max_attempts=1)
        Queue().nack(other, error="y")
        age(held)
        self.assertEqual(self.prune(conf.QueueOptions(keep_dead=3600)), 1)
        self.assertEqual(Attempt.objects.get().job, other)

    def test_in_batches(self):
        self.settled("done", count=7)
        self.assertEqual([self.prune(limit=3) for _ in range(4)], [3, 3, 1, 0])

    def test_a_look_costs_one_statement(self):
        with self.assertNumQueries(1):
            self.prune()
