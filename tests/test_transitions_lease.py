"""lease: ready -> leased, in the order of the lane, committed before any work starts."""

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from django_nobroker import Queue, QueueError, sql, transitions
from django_nobroker.exceptions import LeaseInTransaction
from django_nobroker.models import Job

from .rows import alter


class LeaseTests(TestCase):
    def test_what_a_lease_changes(self):
        job = Queue().enqueue({})
        [held] = Queue(visibility_timeout=60).lease()
        stored = Job.objects.get(pk=job.pk)
        self.assertEqual((stored.state, stored.attempts, stored.fence), ("leased", 1, 1))
        self.assertTrue(stored.leased_by)
        self.assertEqual(stored.lease_expires_at - stored.leased_at, timedelta(seconds=60))
        self.assertEqual(stored.started_at, stored.leased_at)
        for field in Job._meta.concrete_fields:
            with self.subTest(field=field.name):
                mine, theirs = getattr(held, field.attname), getattr(stored, field.attname)
                if isinstance(mine, datetime):
                    # MySQL answers before it writes, by the clock of each statement.
                    self.assertLess(abs(mine - theirs), timedelta(seconds=5))
                    self.assertLessEqual(mine, theirs)
                else:
                    self.assertEqual(mine, theirs)

    def test_the_deadline_of_this_lease_alone(self):
        Queue().enqueue({})
        [held] = Queue().lease(visibility_timeout=timedelta(minutes=5))
        self.assertEqual(held.lease_expires_at - held.leased_at, timedelta(minutes=5))

    def test_the_first_start_is_kept(self):
        Queue().enqueue({})
        Queue().nack(Queue().lease_one(), delay=0)
        first = Queue().list_jobs()[0]
        second = Queue().lease_one()
        self.assertEqual((second.attempts, second.fence), (2, 3))
        self.assertEqual(second.started_at, first.started_at)

    def test_a_lease_begins_without_the_last_ones_progress(self):
        Queue().enqueue({})
        held = Queue().lease_one()
        Queue().progress(held, 0.5, "half")
        Queue().nack(held, delay=0)
        held = Queue().lease_one()
        self.assertEqual((held.progress, held.progress_note), (None, ""))

    def test_attempts_do_not_overflow(self):
        job = Queue().enqueue({})
        alter(job, attempts=32_767, fence=2**62 - 1)
        held = Queue().lease_one()
        self.assertEqual((held.attempts, held.fence), (32_767, 0))
        Queue().ack(held)

    def test_no_job_is_leased_twice(self):
        Queue().enqueue_many(range(10))
        leased = [job.id for _ in range(4) for job in Queue().lease(3)]
        self.assertEqual(len(leased), 10)
        self.assertEqual(len(set(leased)), 10)

    def test_only_what_is_due_and_ready(self):
        Queue().enqueue({}, delay=3600)
        Queue("other").enqueue({})
        for state in ("done", "dead", "cancelled"):
            alter(Queue().enqueue({}), state=state, finished_at="2026-01-01T00:00:00Z")
        self.assertEqual(Queue().lease(10), [])
        self.assertIsNone(Queue().lease_one())

    def test_bad_counts(self):
        for count in (0, -1, 1.5, "1", None, True):
            with self.subTest(count=count), self.assertNumQueries(0):
                self.assertRaises(QueueError, Queue().lease, count)
        for seconds in (0, 0.09, -1, 10**12, float("nan"), "x"):
            with self.subTest(seconds=seconds), self.assertRaises(QueueError):
                Queue().lease(visibility_timeout=seconds)
            with self.subTest(seconds=seconds), self.assertRaises(QueueError):
                Queue(visibility_timeout=seconds)

    def test_a_lease_of_ten_years(self):
        Queue().enqueue({})
        held = Queue().lease_one(visibility_timeout=timedelta(days=3653))
        self.assertEqual(held.lease_expires_at - held.leased_at, timedelta(days=3653))


class OrderTests(TestCase):
    def test_priority_then_time_then_id(self):
        for payload, priority in (("a", 0), ("b", 0), ("c", 5), ("d", -5), ("e", 5)):
            Queue().enqueue(payload, priority=priority)
        alter(Queue().list_jobs()[1], available_at="2026-01-01T00:00:00Z")
        self.assertEqual([job.payload for job in Queue().lease(10)], ["c", "e", "b", "a", "d"])

    def test_a_count_spans_lanes(self):
        for priority in (1, 2, 3):
            Queue().enqueue_many([priority, priority], priority=priority)
        self.assertEqual([job.payload for job in Queue().lease(5)], [3, 3, 2, 2, 1])

    def test_what_lost_a_lease_comes_alone(self):
        Queue().enqueue_many(["a", "b", "c"])
        alter(Queue().list_jobs()[0], lease_losses=1)
        batches = [[job.payload for job in Queue().lease(10)] for _ in range(2)]
        self.assertCountEqual(batches, [["a"], ["b", "c"]])

    def test_future_jobs_of_a_higher_priority_do_not_hide_others(self):
        Queue().enqueue_many(range(5), priority=9, delay=3600)
        job = Queue().enqueue("now")
        self.assertEqual(Queue().lease(10), [job])


class LanesTests(TestCase):
    def lanes(self, queues=None):
        found = sql.dialect(connection).lanes(connection, queues)
        return {(lane.queue, lane.priority, lane.lease_losses): lane.due_in for lane in found}

    def test_every_lane_once(self):
        for queue in ("a", "b", "B"):
            Queue(queue).enqueue_many(range(3))
            Queue(queue).enqueue(1, priority=-3, delay=600)
        alter(Queue("a").list_jobs()[0], lease_losses=2)
        found = self.lanes()
        self.assertEqual(
            set(found),
            {(queue, priority, 0) for queue in "abB" for priority in (0, -3)} | {("a", 0, 2)},
        )
        self.assertLessEqual(found["b", 0, 0], 0)
        self.assertAlmostEqual(found["b", -3, 0], 600, delta=60)

    def test_named_queues_only(self):
        for queue in ("a", "b", "c"):
            Queue(queue).enqueue({})
        self.assertEqual(set(self.lanes(["b", "c", "nobody"])), {("b", 0, 0), ("c", 0, 0)})
        self.assertEqual(self.lanes(["nobody"]), {})
        self.assertEqual(self.lanes([]), {})

    def test_no_lane_without_ready_jobs(self):
        Queue().enqueue({})
        Queue().lease()
        self.assertEqual(self.lanes(), {})


class KindsTests(TestCase):
    def lease(self, **kinds):
        claim = sql.Claim(sql.Lane("default", 0, 0), 10, "me", 30.0, **kinds)
        return [job.payload for job in transitions.lease("default", claim)]

    def setUp(self):
        Queue().enqueue("payload")
        alter(Queue().enqueue("task"), task="app.tasks.send")

    def test_without_tasks(self):
        self.assertEqual(self.lease(payloads=True, tasks=False), ["payload"])

    def test_without_payloads(self):
        self.assertEqual(self.lease(payloads=False, tasks=True), ["task"])

    def test_both(self):
        self.assertEqual(self.lease(payloads=True, tasks=True), ["payload", "task"])


class InTransactionTests(TransactionTestCase):
    def test_is_refused_before_anything_is_written(self):
        Queue().enqueue({})
        with transaction.atomic(), self.assertNumQueries(0):
            with self.assertRaisesMessage(LeaseInTransaction, "outside atomic()"):
                Queue().lease()
            self.assertTrue(connection.is_usable())
        self.assertEqual(Queue().stats().ready, 1)

    def test_without_autocommit_too(self):
        Queue().enqueue({})
        transaction.set_autocommit(False)
        try:
            self.assertRaises(LeaseInTransaction, Queue().lease)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)
        self.assertEqual(Queue().stats().ready, 1)

    def test_is_committed(self):
        job = Queue().enqueue({})
        Queue().lease()
        connection.close()
        self.assertEqual(Queue().get(id=job.id).state, "leased")


class InATestTests(TestCase):
    def test_the_tests_own_transaction_is_no_hindrance(self):
        job = Queue().enqueue({})
        self.assertEqual(Queue().lease_one(), job)

    def test_a_block_inside_it_is(self):
        Queue().enqueue({})
        with transaction.atomic():
            self.assertRaises(LeaseInTransaction, Queue().lease)
        self.assertEqual(Queue().stats().ready, 1)
