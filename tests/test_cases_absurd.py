"""Many jobs at once, and absurd terms: stored and sorted right, or refused before a write."""

from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.test import TestCase

from django_nobroker import Queue, QueueError
from django_nobroker.models import Job

queue = Queue("absurd")


class ManyTests(TestCase):
    def test_ids_are_real_and_in_the_order_of_the_input(self):
        for number in (1, 5, 250, 1_001, 2_500):
            jobs = queue.enqueue_many([[number, index] for index in range(number)], priority=3)
            ids = [job.id for job in jobs]
            self.assertEqual(ids, sorted(set(ids)))
            found = Job.objects.in_bulk(ids)
            self.assertEqual(
                [found[pk].payload for pk in ids], [[number, index] for index in range(number)]
            )
            self.assertEqual({job.priority for job in found.values()}, {3})

    def test_nothing_to_enqueue(self):
        self.assertEqual(queue.enqueue_many([]), [])
        self.assertEqual(queue.enqueue_many(iter(())), [])

    def test_terms_are_checked_even_when_there_is_nothing_to_enqueue(self):
        with self.assertRaises(QueueError):
            queue.enqueue_many([], priority=101)


class AbsurdTests(TestCase):
    def test_refused_before_anything_is_written(self):
        far = datetime(9999, 12, 31, 23, tzinfo=UTC)
        with transaction.atomic():
            for options in (
                {"delay": 10**12},
                {"delay": float("nan")},
                {"delay": float("inf")},
                {"delay": "5"},
                {"delay": None},
                {"delay": timedelta.max},
                {"run_after": far},
                {"run_after": far.replace(tzinfo=None)},
                {"run_after": "2030-01-01"},
                {"run_after": datetime(2030, 1, 1, tzinfo=UTC), "delay": 5},
                {"priority": 101},
                {"priority": -101},
                {"priority": 1.0},
                {"priority": True},
                {"priority": "1"},
                {"max_attempts": 0},
                {"max_attempts": 40_000},
                {"max_attempts": 2.5},
            ):
                with self.subTest(options=options):
                    with self.assertRaises(QueueError):
                        queue.enqueue(0, **options)
                    with self.assertRaises(QueueError):
                        queue.enqueue_many([0], **options)
            queue.enqueue(0)
        self.assertEqual(Job.objects.count(), 1)

    def test_lease_of_ten_years_and_of_absurd_length(self):
        queue.enqueue(0)
        job = queue.lease_one(visibility_timeout=timedelta(days=3653))
        self.assertEqual((job.lease_expires_at - job.leased_at).days, 3653)
        queue.extend(job, 200 * 366 * 86400)
        for seconds in (10**12, float("nan"), float("inf"), "9"):
            with self.assertRaises(QueueError):
                queue.extend(job, seconds)
            with self.assertRaises(QueueError):
                queue.nack(job, delay=seconds)
            with self.assertRaises(QueueError):
                Queue("absurd", visibility_timeout=seconds)
        queue.ack(job)

    def test_before_now_is_now(self):
        for options in (
            {"delay": -1},
            {"delay": -(10**300)},
            {"delay": timedelta.min},
            {"run_after": datetime(1, 1, 1, tzinfo=UTC)},
            {"run_after": datetime(1969, 7, 20, tzinfo=UTC)},
        ):
            queue.enqueue(0, **options)
        self.assertEqual(queue.stats().ready, 5)
        self.assertEqual(len(queue.lease(9)), 5)

    def test_year_9999_is_stored_and_sorted(self):
        queue.enqueue("last", run_after=datetime(9999, 12, 30, tzinfo=UTC))
        queue.enqueue("next", delay=3600)
        stats = queue.stats()
        self.assertEqual((stats.ready, stats.delayed), (0, 2))
        self.assertEqual(queue.lease(9), [])
        jobs = queue.jobs.order_by("available_at")
        self.assertEqual([job.payload for job in jobs], ["next", "last"])
