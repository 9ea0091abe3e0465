"""When a worker stops by itself, and what it waits for first."""

from unittest import mock

from django.test import TestCase

from django_nobroker import Queue, tasks, transitions
from django_nobroker.models import Job
from django_nobroker.worker.limits import resident_bytes
from tests.bench import Bench
from tests.rows import HOUR, alter, insert
from tests.work import Quiet


class LimitsTests(Quiet, TestCase):
    def reached(self, *, busy=False, leased=0, handler=print, **options):
        limits = Bench(handler, **options).limits
        limits._began -= HOUR
        if not busy:
            limits._busy_at -= HOUR
        return limits.reached(busy=busy, leased=leased)

    def test_none_without_limits(self):
        self.assertIsNone(self.reached())

    def test_jobs(self):
        self.assertIsNone(self.reached(max_jobs=3, leased=2))
        self.assertIn("3 jobs", self.reached(max_jobs=3, leased=3))
        # Those that run are to end first.
        self.assertIsNone(self.reached(max_jobs=3, leased=3, busy=True))

    def test_time_busy_or_not(self):
        self.assertIsNone(self.reached(max_time=2 * HOUR))
        for busy in (False, True):
            self.assertIn("over", self.reached(max_time=60, busy=busy))

    def test_memory_busy_or_not(self):
        self.assertIsNone(self.reached(max_memory=10_000_000))
        for busy in (False, True):
            self.assertIn("memory", self.reached(max_memory=1, busy=busy))

    def test_memory_is_that_of_this_process(self):
        before = resident_bytes()
        ballast = b"x" * 64 * 1024 * 1024
        self.assertGreater(resident_bytes(), before + len(ballast) // 2)

    def test_burst(self):
        self.assertIn("nothing is due", self.reached(burst=True))
        Queue().enqueue(1, delay=HOUR)
        self.assertIn("nothing is due", self.reached(burst=True))
        Queue().enqueue(1)
        self.assertIsNone(self.reached(burst=True))

    @mock.patch.object(tasks, "SUPPORTED", False)
    def test_a_burst_is_over_when_what_is_due_is_nothing_to_it(self):
        insert(task="shop.tasks.send", queue="tasks")
        Queue("paused").enqueue(1)
        transitions.pause("default", "paused")
        Queue("other").enqueue(1)
        self.assertIsNone(self.reached(burst=True))
        for options in (
            {"exclude": ["other"]},
            {"queues": ["tasks", "paused", "nosuch"]},
            {"handler": None},
        ):
            with self.subTest(**options):
                bench = Bench(burst=True, **options)
                # As in every turn of the loop: it has tried to lease them.
                self.assertEqual(bench.claimer.claim(), [])
                self.assertIn("nothing is due", bench.limits.reached(busy=False, leased=0))


class IdleTests(Quiet, TestCase):
    """Idle counts from when a job was last due, leased, or waiting for a retry."""

    def is_idle(self, handler=print, **options):
        limits = Bench(handler, idle_timeout=60, **options).limits
        limits._busy_at -= HOUR
        return limits.reached(busy=False, leased=0) is not None

    def test_with_nothing(self):
        self.assertTrue(self.is_idle())

    def test_not_at_once(self):
        self.assertIsNone(Bench(idle_timeout=60).limits.reached(busy=False, leased=0))

    def test_each_job_it_sees_begins_the_time_anew(self):
        limits = Bench(idle_timeout=60).limits
        job = Queue().enqueue(1)
        limits._busy_at -= HOUR
        self.assertIsNone(limits.reached(busy=False, leased=0))
        Job.objects.filter(pk=job.pk).delete()
        self.assertIsNone(limits.reached(busy=False, leased=0))
        limits._busy_at -= HOUR
        self.assertIsNotNone(limits.reached(busy=False, leased=0))

    def test_with_a_job_that_is_due(self):
        Queue().enqueue(1)
        self.assertFalse(self.is_idle())

    def test_with_a_job_that_waits_for_its_retry(self):
        alter(Queue().enqueue(1, delay=HOUR), attempts=1)
        self.assertFalse(self.is_idle())

    def test_with_a_job_that_another_worker_runs(self):
        Queue().enqueue(1)
        Queue().lease_one()
        self.assertFalse(self.is_idle())

    def test_with_a_job_that_is_only_delayed(self):
        Queue().enqueue(1, delay=HOUR)
        self.assertTrue(self.is_idle())

    def test_with_jobs_that_are_done_dead_or_cancelled(self):
        queue = Queue()
        _, dead, cancelled = queue.enqueue_many(range(3))
        queue.ack(queue.lease_one())
        alter(dead, max_attempts=1)
        queue.nack(queue.lease_one())
        queue.cancel(id=cancelled.id)
        self.assertEqual(queue.stats().total, queue.stats().done + 2)
        self.assertTrue(self.is_idle())

    @mock.patch.object(tasks, "SUPPORTED", False)
    def test_with_jobs_that_are_nothing_to_it(self):
        Queue("other").enqueue(1)
        insert(task="shop.tasks.send")
        self.assertTrue(self.is_idle(queues=["default"]))
        self.assertTrue(self.is_idle(exclude=["other"]))
        self.assertTrue(self.is_idle(handler=None))
        self.assertFalse(self.is_idle())
