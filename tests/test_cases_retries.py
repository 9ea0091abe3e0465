"""Retries, leases and dead letters at the edges of their numbers, and with a backoff gone wrong."""

from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.test import TestCase

from django_nobroker import BackoffPolicy, Queue, transitions
from django_nobroker.conf import QueueOptions
from django_nobroker.models import (
    COUNT_LIMIT,
    FENCE_LIMIT,
    SNOOZE_LIMIT,
    Attempt,
    Job,
    State,
)
from django_nobroker.transitions import settle

from . import rows

queue = Queue("retries", max_attempts=COUNT_LIMIT)


class WildBackoff(BackoffPolicy):
    answer = None

    def delay(self, attempt):
        return self.answer


class NumbersTests(TestCase):
    def leased(self, **columns):
        job = queue.enqueue(0)
        if columns:
            rows.alter(job, **columns)
        return queue.lease_one()

    def test_many_attempts_and_no_cap_in_reach(self):
        policies = (
            BackoffPolicy(factor=5, max_delay=3600, jitter=0),
            BackoffPolicy(factor=1e6, max_delay=366 * 86400),
        )
        for policy in policies:
            steep = Queue("retries", backoff=policy)
            for attempts in (49, 499, 4_999, COUNT_LIMIT - 2):
                with self.subTest(policy=policy, attempts=attempts):
                    job = self.leased(attempts=attempts)
                    failed = steep.nack(job, error="again")
                    self.assertEqual((failed.state, failed.attempts), (State.READY, attempts + 1))
                    wait = failed.available_at - failed.created_at
                    self.assertLessEqual(wait, timedelta(seconds=policy.max_delay + 60))
                    self.assertGreater(wait, timedelta(seconds=policy.max_delay / 2 - 60))
                    queue.purge()

    def test_own_backoff_that_answers_nonsense_never_loses_the_job(self):
        for answer in (float("inf"), float("nan"), -5.0, None, 1e300, "soon"):
            with self.subTest(answer=answer):
                policy = WildBackoff()
                wild = Queue("retries", backoff=policy)
                type(policy).answer = answer
                job = self.leased()
                with transaction.atomic():
                    failed = wild.nack(job, error="again")
                self.assertEqual((failed.state, failed.attempts), (State.READY, 1))
                self.assertLess(failed.available_at, datetime.now(UTC) + timedelta(days=367))
                queue.purge()

    def test_last_attempt_that_a_row_can_count(self):
        job = self.leased(attempts=COUNT_LIMIT)
        self.assertEqual(job.attempts, COUNT_LIMIT)
        self.assertEqual(queue.nack(job).state, State.DEAD)

    def test_fence_begins_again(self):
        job = self.leased(fence=FENCE_LIMIT - 1)
        self.assertEqual(job.fence, 0)
        queue.extend(job, 60)
        queue.ack(job)
        self.assertEqual(queue.get(id=job.id).fence, 1)

    def test_counters_stop_at_their_limits(self):
        job = self.leased(snoozes=SNOOZE_LIMIT)
        settle.apply_one(queue.alias, settle.snoozed(job, 1))
        job = queue.get(id=job.id)
        self.assertEqual(job.snoozes, SNOOZE_LIMIT)
        rows.bring_forward(job)
        rows.alter(job, lease_losses=COUNT_LIMIT)
        rows.expire(queue.lease_one())
        self.assertEqual(self.reap(), 1)
        self.assertEqual(queue.get(id=job.id).lease_losses, COUNT_LIMIT)

    def reap(self):
        options = QueueOptions(backoff=BackoffPolicy(base=0))
        return transitions.reap(queue.alias, lambda name: options, in_touch=1e9)


class LastAttemptTests(TestCase):
    def test_one_attempt_one_run(self):
        job = queue.enqueue(0, max_attempts=1)
        failed = queue.nack(queue.lease_one(), error=ValueError("no"))
        self.assertEqual((failed.state, failed.attempts), (State.DEAD, 1))
        self.assertEqual(queue.lease(9), [])
        self.assertEqual([letter.id for letter in queue.dlq()], [job.id])
        [attempt] = Attempt.objects.all()
        self.assertEqual((attempt.number, attempt.message), (1, "ValueError: no"))

    def test_lost_lease_says_so_and_its_late_ack_changes_nothing(self):
        queue.enqueue(0, max_attempts=1)
        job = queue.lease_one()
        rows.expire(job)
        options = QueueOptions()
        self.assertEqual(
            transitions.reap(queue.alias, lambda name: options, in_touch=1e9, queues=["retries"]), 1
        )
        [dead] = queue.dlq()
        self.assertIn("lease expired, held by", dead.last_error)
        self.assertIn(job.leased_by, dead.last_error)
        before = rows.snapshot(dead)
        with self.assertRaisesMessage(Exception, "The lease of job"):
            queue.ack(job)
        self.assertEqual(rows.snapshot(dead), before)


class ManyDeadTests(TestCase):
    def test_requeue_takes_the_dead_only_and_says_how_many(self):
        jobs = queue.enqueue_many(range(1_203), max_attempts=1)
        leased = queue.lease(1_202)
        settle.apply(queue.alias, [settle.acked(job) for job in leased[:2]])
        verdicts = [settle.rejected(job, settle.Failure(message="no")) for job in leased[2:]]
        settle.apply(queue.alias, verdicts)
        self.assertEqual(queue.requeue_dead(id=jobs[0].id), 0)
        self.assertEqual(queue.requeue_dead(), 1_200)
        self.assertEqual(queue.requeue_dead(), 0)
        self.assertEqual(queue.stats()[:5], (1_201, 0, 0, 2, 0))
        self.assertEqual(set(queue.jobs.values_list("attempts", flat=True)), {0, 1})
        self.assertEqual(Attempt.objects.count(), 1_200)

    def test_spread(self):
        queue.enqueue_many(range(50), max_attempts=1)
        for job in queue.lease(50):
            queue.nack(job)
        self.assertEqual(transitions.requeue(queue.jobs, spread=7200), 50)
        times = set(queue.jobs.values_list("available_at", flat=True))
        self.assertGreater(len(times), 40)
        self.assertGreater(max(times) - min(times), timedelta(minutes=20))
        self.assertLess(max(times), datetime.now(UTC) + timedelta(seconds=7260))
        self.assertGreaterEqual(queue.stats().delayed, 40)

    def test_key_of_a_dead_job_stays_taken(self):
        queue.enqueue("first", job_id="k", max_attempts=1)
        queue.nack(queue.lease_one())
        with self.assertLogs("django_nobroker", "WARNING") as logs:
            job = queue.enqueue("second", job_id="k")
        self.assertIn("dead", logs.output[0])
        self.assertEqual((job.created, job.state), (False, State.DEAD))
        self.assertEqual(queue.requeue_dead("k"), 1)
        self.assertEqual(queue.lease_one().payload, "first")
        self.assertEqual(Job.objects.count(), 1)
