"""What a person does to jobs: cancel, requeue, edit, delete, pause."""

from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.utils.timezone import now

from django_nobroker import JobNotFound, Queue, QueueError, SerializationError, sql, transitions
from django_nobroker.models import Attempt, Job, QueueControl
from django_nobroker.transitions import operate

from .rows import alter

JOBS = Job.objects


def dead(**terms):
    Queue().enqueue({}, max_attempts=1, **terms)
    held = Queue().lease_one()
    return Queue().nack(held, error="the end")


class CancelTests(TestCase):
    def test_ready_and_leased(self):
        waiting, later = Queue().enqueue(1), Queue().enqueue(2, delay=60)
        Queue().enqueue(3, priority=9)
        held = Queue().lease_one()
        self.assertEqual(transitions.cancel(JOBS.all()), 3)
        for job in JOBS.all():
            # Who held it stays to be seen.
            self.assertEqual(job.state, "cancelled")
            self.assertEqual(job.leased_by, held.leased_by if job.id == held.id else "")
            self.assertIsNone(job.lease_expires_at)
            self.assertIsNotNone(job.finished_at)
        self.assertEqual(Queue().get(id=held.id).fence, held.fence + 1)
        self.assertEqual({waiting.id, later.id, held.id}, set(JOBS.values_list("id", flat=True)))

    def test_settled_jobs_are_left_alone(self):
        dead()
        self.assertEqual(transitions.cancel(JOBS.all()), 0)

    def test_by_the_queue(self):
        Queue().enqueue({}, job_id="key")
        self.assertIs(Queue().cancel("key"), True)
        self.assertIs(Queue().cancel("key"), False)
        self.assertIs(Queue().cancel("nobody"), False)
        self.assertIs(Queue("other").cancel(id=Queue().get("key").id), False)

    def test_many_in_batches(self):
        Queue().enqueue_many(range(operate.BATCH * 2 + 3))
        self.assertEqual(transitions.cancel(JOBS.all()), operate.BATCH * 2 + 3)
        self.assertEqual(transitions.cancel(JOBS.all()), 0)


class RequeueTests(TestCase):
    def test_all_attempts_again_and_the_history_kept(self):
        job = dead(job_id="key")
        self.assertEqual(Queue().requeue_dead("key"), 1)
        again = Queue().get("key")
        self.assertEqual((again.state, again.attempts, again.finished_at), ("ready", 0, None))
        self.assertEqual(again.failed_attempts.get().message, "the end")
        self.assertEqual(Queue().lease_one(), job)

    def test_cancelled_ones_too(self):
        Queue().cancel(id=Queue().enqueue({}, delay=600).id)
        self.assertEqual(transitions.requeue(JOBS.all()), 1)
        self.assertIsNotNone(Queue().lease_one())

    def test_all_dead_of_one_queue(self):
        dead(), dead()
        Queue().cancel(id=Queue().enqueue({}).id)
        self.assertEqual(Queue("other").requeue_dead(), 0)
        self.assertEqual(Queue().requeue_dead(), 2)
        self.assertEqual(Queue().stats()[:2], (2, 0))

    def test_what_is_not_dead(self):
        job = Queue().enqueue({})
        self.assertEqual(Queue().requeue_dead(id=job.id), 0)

    def test_spread_over_a_time(self):
        for _ in range(30):
            dead()
        self.assertEqual(transitions.requeue(JOBS.all(), spread=3600), 30)
        waits = [(job.available_at - now()).total_seconds() for job in JOBS.all()]
        self.assertTrue(all(-5 <= wait <= 3600 for wait in waits))
        self.assertGreater(max(waits) - min(waits), 600)

    def test_bad_spreads(self):
        for spread in (-1, float("nan"), 10**12, "x"):
            with self.subTest(spread=spread), self.assertRaises(QueueError):
                transitions.requeue(JOBS.all(), spread=spread)

    def test_what_lost_leases_is_still_leased_alone(self):
        job = dead()
        alter(job, lease_losses=3)
        Queue().requeue_dead()
        self.assertEqual(Queue().get(id=job.id).lease_losses, 3)


class EditTests(TestCase):
    def test_each_value(self):
        job = Queue().enqueue({}, delay=600)
        when = datetime(2040, 1, 1, tzinfo=UTC)
        self.assertEqual(transitions.edit(JOBS.all(), payload_text=' {"a" : 1}'), 1)
        self.assertEqual(transitions.edit(JOBS.all(), priority=0), 1)
        self.assertEqual(transitions.edit(JOBS.all(), priority=-5, available_at=when), 1)
        found = Queue().get(id=job.id)
        self.assertEqual((found.payload, found.priority, found.available_at), ({"a": 1}, -5, when))
        self.assertIsNone(Queue().lease_one())
        self.assertEqual(transitions.edit(JOBS.all(), run_now=True), 1)
        self.assertEqual(Queue().lease_one(), job)

    def test_dead_ones_and_no_others(self):
        dead()
        Queue().enqueue({}, priority=9)
        Queue().lease_one()
        self.assertEqual(transitions.edit(JOBS.all(), payload_text="5"), 1)
        self.assertEqual(Queue().dlq()[0].payload, 5)

    def test_bad_values_change_nothing(self):
        Queue().enqueue({})
        before = list(JOBS.values())
        for error, values in (
            (SerializationError, {"payload_text": "{"}),
            (SerializationError, {"payload_text": "NaN"}),
            (SerializationError, {"payload_text": ""}),
            (QueueError, {"priority": 101}),
            (QueueError, {"available_at": datetime.max.replace(tzinfo=UTC)}),
            (QueueError, {}),
        ):
            with self.subTest(values=values), self.assertRaises(error):
                transitions.edit(JOBS.all(), **values)
        self.assertEqual(list(JOBS.values()), before)


class DeleteTests(TestCase):
    def test_by_states(self):
        dead()
        Queue().enqueue({})
        self.assertEqual(transitions.delete(JOBS.all(), states=["done"]), 0)
        self.assertEqual(transitions.delete(JOBS.all(), states=["dead"]), 1)
        self.assertEqual(JOBS.get().state, "ready")
        self.assertFalse(Attempt.objects.exists())

    def test_purge_takes_all_of_one_queue_leased_ones_too(self):
        dead()
        Queue().enqueue_many(range(operate.BATCH + 1))
        Queue().lease(3)
        Queue("other").enqueue({})
        self.assertEqual(Queue().purge(), operate.BATCH + 2)
        self.assertEqual(JOBS.get().queue, "other")

    def test_nothing_left_to_delete_is_a_number_too(self):
        with transaction.atomic():
            self.assertEqual(sql.dialect(connection).forget(JOBS.all(), []), 0)

    def test_a_deleted_job_is_not_found(self):
        job = Queue().enqueue({}, job_id="key")
        Queue().purge()
        self.assertRaises(JobNotFound, Queue().get, "key")
        self.assertRaises(JobNotFound, Queue().get, id=job.id)


class CompactTests(TransactionTestCase):
    def settled(self):
        Queue().enqueue_many(range(5))
        for job in Queue().lease(3):
            Queue().ack(job)
        Queue().cancel(id=Queue().list_jobs("ready")[0].id)

    def test_done_and_cancelled_go_and_the_space_is_given_back(self):
        self.settled()
        result = Queue().compact()
        self.assertEqual(result.removed, 4)
        self.assertEqual(Queue().stats().total, 1)
        self.assertTrue(result.describe().startswith("4 finished jobs removed"))

    def test_inside_a_transaction_as_far_as_it_can(self):
        self.settled()
        with transaction.atomic():
            self.assertEqual(Queue().compact().removed, 4)
        self.assertEqual(Queue().stats().total, 1)


class PauseTests(TestCase):
    def test_pause_and_resume(self):
        transitions.pause("default", "emails", by="ann")
        transitions.pause("default", "emails", by="bob")
        self.assertEqual(QueueControl.objects.get().paused_by, "bob")
        self.assertTrue(Queue("emails").enqueue({}).id)
        self.assertIs(transitions.resume("default", "emails"), True)
        self.assertIs(transitions.resume("default", "emails"), False)

    def test_since_when_it_is_paused(self):
        transitions.pause("default", "emails")
        self.assertLess(abs(QueueControl.objects.get().paused_at - now()), timedelta(minutes=5))
