"""The Queue: its options, its lists and counts, and what it refuses."""

from django.core.exceptions import ObjectDoesNotExist, SynchronousOnlyOperation
from django.db import connection, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase

from django_nobroker import (
    BackoffPolicy,
    JobNotFound,
    LeaseLost,
    NobrokerError,
    Queue,
    QueueError,
    QueueStats,
    SerializationError,
)
from django_nobroker.models import Job

from .rows import insert


class ConstructionTests(SimpleTestCase):
    def test_bad_options(self):
        for options in (
            {"max_attempts": 0}, {"max_attempts": "3"}, {"visibility_timeout": 0},
            {"visibility_timeout": "30"}, {"backoff": 5}, {"backoff": {"bse": 1}},
        ):  # fmt: skip
            with self.subTest(**options), self.assertRaises(QueueError):
                Queue("emails", **options)

    def test_options_of_its_own(self):
        backoff = BackoffPolicy(base=5)
        options = Queue(max_attempts=2, visibility_timeout=5, backoff=backoff).options
        self.assertEqual((options.max_attempts, options.visibility_timeout), (2, 5))
        self.assertEqual(options.backoff, backoff)

    def test_it_can_be_made_without_a_database(self):
        self.assertEqual(repr(Queue("emails")), "<Queue 'emails'>")

    def test_errors_are_what_callers_would_catch(self):
        self.assertTrue(issubclass(JobNotFound, ObjectDoesNotExist))
        self.assertTrue(issubclass(SerializationError, ValueError))
        self.assertTrue(issubclass(QueueError, ValueError))
        for error in (JobNotFound, SerializationError, QueueError, LeaseLost):
            self.assertTrue(issubclass(error, NobrokerError))


class ReadingTests(TestCase):
    def test_get(self):
        job = Queue().enqueue({"a": 1}, job_id="key")
        self.assertEqual(Queue().get("key"), job)
        self.assertEqual(Queue().get(id=job.id).payload, {"a": 1})

    def test_get_of_what_is_not_there(self):
        job = Queue().enqueue({}, job_id="key")
        own, other = Queue(), Queue("other")
        for queue, wanted in (
            (own, {"job_id": "nobody"}), (own, {"id": job.id + 1}), (own, {"id": 2**80}),
            (own, {"id": -(2**80)}), (other, {"id": job.id}), (other, {"job_id": "key"}),
        ):  # fmt: skip
            with self.subTest(**wanted), self.assertRaisesMessage(JobNotFound, queue.name):
                queue.get(**wanted)

    def test_questions_that_are_none(self):
        for given in (
            {}, {"job_id": "a", "id": 1}, {"id": "1"}, {"id": True}, {"id": 1.0}, {"job_id": 5},
            {"job_id": ""}, {"job_id": "x" * 191}, {"job_id": "\x00"},
        ):  # fmt: skip
            for ask in (Queue().get, Queue().cancel):
                with self.subTest(**given), self.assertRaises(QueueError):
                    ask(**given)

    def test_stats(self):
        self.assertEqual(Queue().stats(), QueueStats(0, 0, 0, 0, 0, 0, 0))
        Queue().enqueue_many(range(10), max_attempts=1)
        Queue().enqueue_many(range(2), delay=600)
        Queue("other").enqueue({})
        jobs = Queue().lease(7)
        for job in jobs[:3]:
            Queue().ack(job)
        for job in jobs[3:5]:
            Queue().nack(job)
        Queue().cancel(id=jobs[5].id)
        self.assertEqual(
            Queue().stats(),
            QueueStats(ready=3, delayed=2, leased=1, done=3, dead=2, cancelled=1, total=12),
        )

    def test_lists(self):
        jobs = Queue().enqueue_many(range(5))
        Queue().ack(Queue().lease_one())
        self.assertEqual(Queue().list_jobs(), jobs)
        self.assertEqual(Queue().list_jobs("ready"), jobs[1:])
        self.assertEqual(Queue().list_jobs("done", limit=5), jobs[:1])
        self.assertEqual(Queue().list_jobs(limit=2), jobs[:2])
        self.assertEqual(Queue().list_jobs(limit=0), [])

    def test_lists_that_are_none(self):
        for call in (
            lambda: Queue().list_jobs("odd"), lambda: Queue().list_jobs(limit=-1),
            lambda: Queue().list_jobs(limit="5"), lambda: Queue().dlq(limit=True),
            lambda: Queue().dlq(limit=1.5),
        ):  # fmt: skip
            self.assertRaises(QueueError, call)

    def test_dead_letters_with_their_errors(self):
        for number in range(3):
            Queue().enqueue(number, max_attempts=1)
            Queue().nack(Queue().lease_one(), error=f"error {number}")
        self.assertEqual([job.last_error for job in Queue().dlq(limit=2)], ["error 2", "error 1"])
        self.assertEqual(len(Queue().dlq()), 3)

    def test_reading_writes_nothing(self):
        insert("{broken")
        before = list(Job.objects.values())
        Queue().stats(), Queue().list_jobs(), Queue().dlq(), Queue().get(id=before[0]["id"])
        self.assertEqual(list(Job.objects.values()), before)


class ManualTransactionTests(TransactionTestCase):
    """Leasing by hand, and settling together with what the job did."""

    def held(self):
        Queue().enqueue({})
        return Queue().lease_one()

    def test_an_ack_goes_with_the_callers_transaction(self):
        held = self.held()
        with transaction.atomic():
            Queue().ack(held)
            transaction.set_rollback(True)
        self.assertEqual(Queue().get(id=held.id).state, "leased")
        with transaction.atomic():
            insert("{}", queue="effects")
            Queue().ack(held)
        self.assertEqual(Queue().get(id=held.id).state, "done")
        self.assertEqual(Queue("effects").stats().total, 1)

    def test_a_lost_lease_takes_the_effects_with_it(self):
        for settle in (Queue().ack, Queue().nack, lambda job: Queue().extend(job, 5),
                       lambda job: Queue().progress(job, 0.5)):  # fmt: skip
            held = self.held()
            Queue().cancel(id=held.id)
            with transaction.atomic():
                insert("{}", queue="effects")
                with self.assertRaisesMessage(LeaseLost, f"fence {held.fence}"):
                    settle(held)
                # Even one who swallows the error cannot commit.
            self.assertEqual(Queue("effects").stats().total, 0)

    def test_outside_a_transaction_the_connection_stays_usable(self):
        held = self.held()
        Queue().ack(held)
        self.assertRaises(LeaseLost, Queue().ack, held)
        self.assertEqual(Queue().stats().done, 1)

    def test_close(self):
        with Queue() as queue:
            queue.enqueue({})
        self.assertIsNone(connection.connection)
        with transaction.atomic():
            queue.enqueue({})
            queue.close()
        self.assertEqual(queue.stats().total, 2)


class AsyncTests(TransactionTestCase):
    async def test_the_async_twins(self):
        job = await Queue().aenqueue({"a": 1}, job_id="key", priority=5)
        self.assertEqual((job.payload, job.priority, job.created), ({"a": 1}, 5, True))
        jobs = await Queue().aenqueue_many([1, 2], priority=-5)
        self.assertEqual([job.payload for job in jobs], [1, 2])
        self.assertEqual(await Job.objects.acount(), 3)

    async def test_the_sync_ones_name_them(self):
        with self.assertRaisesMessage(SynchronousOnlyOperation, "aenqueue()"):
            Queue().enqueue({})
        with self.assertRaisesMessage(SynchronousOnlyOperation, "aenqueue_many()"):
            Queue().enqueue_many([1])

    async def test_errors_come_through(self):
        with self.assertRaises(SerializationError):
            await Queue().aenqueue({1})
        with self.assertRaises(QueueError):
            await Queue().aenqueue(1, priority=500)
