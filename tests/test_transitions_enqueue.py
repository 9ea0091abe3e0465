"""enqueue: nothing -> ready, in the caller's transaction."""

from datetime import UTC, datetime, timedelta, timezone

from django.contrib.auth.models import User
from django.db import transaction
from django.test import TestCase, override_settings
from django.utils.timezone import now

from django_nobroker import Queue, QueueError, SerializationError
from django_nobroker.models import Job


class Marker(Exception):
    pass


class EnqueueTests(TestCase):
    def test_a_job_is_due_at_once(self):
        job = Queue("emails").enqueue({"to": 1})
        stored = Job.objects.get()
        self.assertEqual((stored.pk, stored.queue, stored.payload), (job.id, "emails", {"to": 1}))
        self.assertEqual((stored.state, stored.attempts, stored.fence), ("ready", 0, 0))
        self.assertTrue(job.created)
        self.assertEqual(Queue("emails").lease_one(), job)

    def test_all_terms_are_in_the_row(self):
        job = Queue().enqueue(
            [1], priority=-7, delay=timedelta(hours=1), max_attempts=2, job_id="k", subject="s"
        )
        stored = Job.objects.get()
        for name in ("priority", "max_attempts", "job_id", "subject", "available_at", "payload"):
            with self.subTest(name=name):
                self.assertEqual(getattr(stored, name), getattr(job, name))
        wait = stored.available_at - stored.created_at
        self.assertAlmostEqual(wait.total_seconds(), 3600, delta=1)

    def test_max_attempts_is_stamped_on_the_row(self):
        with override_settings(NOBROKER={"MAX_ATTEMPTS": 8}):
            self.assertEqual(Queue().enqueue({}).max_attempts, 8)
            self.assertEqual(Queue(max_attempts=3).enqueue({}).max_attempts, 3)
            self.assertEqual(Queue(max_attempts=3).enqueue({}, max_attempts=1).max_attempts, 1)
            self.assertEqual(Queue().enqueue_many([1, 2])[1].max_attempts, 8)
        self.assertEqual(
            sorted(Job.objects.values_list("max_attempts", flat=True)), [1, 3, 8, 8, 8]
        )

    def test_the_past_is_now(self):
        for terms in (
            {"delay": -5},
            {"delay": timedelta(days=-100_000)},
            {"run_after": datetime(1815, 6, 18, tzinfo=UTC)},
            {"run_after": datetime(1, 1, 1, tzinfo=UTC)},
            {"run_after": now() - timedelta(days=1)},
        ):
            with self.subTest(**terms):
                job = Queue().enqueue({}, **terms)
                self.assertEqual(Queue().lease_one(), job)

    def test_the_past_does_not_go_before_the_present(self):
        first = Queue().enqueue(1)
        Queue().enqueue(2, run_after=now() - timedelta(days=365))
        self.assertEqual(Queue().lease_one(), first)

    def test_run_after_of_any_zone(self):
        ahead = timezone(timedelta(hours=5, minutes=30))
        when = datetime(2035, 1, 2, 3, 4, 5, tzinfo=ahead)
        job = Queue().enqueue({}, run_after=when)
        self.assertEqual(Job.objects.get().available_at, when)
        self.assertEqual(job.available_at, when)

    @override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
    def test_run_after_without_zones(self):
        Queue().enqueue({}, run_after=datetime(2035, 1, 2, 8))  # noqa: DTZ001
        self.assertEqual(Job.objects.get().available_at, datetime(2035, 1, 2, 0, tzinfo=UTC))

    def test_the_far_future_is_kept_and_sorts(self):
        far = Queue().enqueue({}, run_after=datetime(9999, 12, 30, tzinfo=UTC))
        Queue().enqueue({}, delay=100 * 366 * 86400)
        self.assertEqual(Job.objects.order_by("-available_at").first(), far)
        self.assertEqual(Queue().stats().delayed, 2)

    def test_subjects(self):
        user = User.objects.create(username="ann")
        self.assertEqual(Queue().enqueue({}, subject=user).subject, f"auth.user:{user.pk}")
        self.assertEqual(Queue().enqueue({}, subject="order 5").subject, "order 5")
        self.assertEqual(Job.objects.filter(subject=f"auth.user:{user.pk}").count(), 1)
        with self.assertRaisesMessage(QueueError, "save it first"):
            Queue().enqueue({}, subject=User())


class TransactionTests(TestCase):
    def test_a_job_goes_with_its_transaction(self):
        with self.assertRaises(Marker), transaction.atomic():
            Queue().enqueue({})
            Queue().enqueue_many([1, 2])
            Queue().enqueue({}, job_id="key")
            raise Marker
        self.assertEqual(Job.objects.count(), 0)

    def test_a_rolled_back_block_inside_takes_only_its_own(self):
        with transaction.atomic():
            Queue().enqueue("J1")
            with self.assertRaises(Marker), transaction.atomic():
                Queue().enqueue("J2")
                raise Marker
        self.assertEqual([job.payload for job in Queue().list_jobs()], ["J1"])

    def test_many_in_one_block(self):
        with transaction.atomic():
            for number in range(50):
                Queue().enqueue({"id": number})
        found = [job.payload["id"] for job in Queue().list_jobs()]
        self.assertEqual(found, list(range(50)))

    def test_an_error_reaches_the_caller_and_rolls_all_back(self):
        with self.assertRaises(SerializationError), transaction.atomic():
            User.objects.create(username="ann")
            Queue().enqueue({"a": object()})
        self.assertFalse(User.objects.exists())

    def test_an_error_that_is_caught_leaves_the_block_usable(self):
        with transaction.atomic():
            for bad in ({"payload": {1}}, {"payload": 1, "priority": 500}):
                with self.assertRaises((SerializationError, QueueError)):
                    Queue().enqueue(**bad)
            User.objects.create(username="ann")
        self.assertTrue(User.objects.exists())


class ManyTests(TestCase):
    def test_ids_are_real_and_in_the_order_of_the_input(self):
        jobs = Queue().enqueue_many([{"n": number} for number in range(1500)])
        self.assertEqual([job.payload["n"] for job in jobs], list(range(1500)))
        stored = {job.pk: job.payload["n"] for job in Job.objects.all()}
        self.assertEqual({job.id: job.payload["n"] for job in jobs}, stored)
        self.assertEqual([job.id for job in jobs], sorted(job.id for job in jobs))

    def test_a_few(self):
        for payloads in ([], [1], [1, 2]):
            with self.subTest(payloads=payloads):
                jobs = Queue().enqueue_many(payloads)
                self.assertEqual([Queue().get(id=job.id).payload for job in jobs], payloads)

    def test_an_iterator(self):
        self.assertEqual(len(Queue().enqueue_many(iter("abc"))), 3)

    def test_nothing_costs_nothing_but_is_checked(self):
        with self.assertNumQueries(0):
            self.assertEqual(Queue().enqueue_many([]), [])
            with self.assertRaises(QueueError):
                Queue().enqueue_many([], priority=500)

    def test_terms_hold_for_each(self):
        user = User.objects.create(username="ann")
        Queue("q").enqueue_many([1, 2], priority=9, delay=60, max_attempts=2, subject=user)
        for job in Job.objects.all():
            self.assertEqual((job.queue, job.priority, job.max_attempts), ("q", 9, 2))
            self.assertEqual(job.subject, f"auth.user:{user.pk}")
            self.assertGreater(job.available_at, job.created_at)

    def test_they_run_in_order(self):
        Queue().enqueue_many(range(20))
        self.assertEqual([job.payload for job in Queue().lease(20)], list(range(20)))

    def test_large_and_small_together(self):
        texts = ["x" * 700_000, "y", "\\\"'" * 100_000, "z" * 70_000, ""]
        jobs = Queue().enqueue_many(texts)
        self.assertEqual([Queue().get(id=job.id).payload for job in jobs], texts)
