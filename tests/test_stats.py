"""Counting: every queue, every state, since when the first waits."""

from datetime import timedelta

from django.test import TestCase
from django.utils.timezone import now

from django_nobroker import Queue, QueueStats, stats, transitions
from django_nobroker.clock import Ahead

from .rows import alter, insert


class ReportTests(TestCase):
    def test_no_jobs_no_queues(self):
        self.assertEqual(stats.report("default"), [])

    def test_each_queue_in_order_of_its_name(self):
        for name in ("b", "a", "B"):
            Queue(name).enqueue({})
        self.assertEqual([each.queue for each in stats.report("default")], ["B", "a", "b"])

    def test_the_same_counts_as_the_queues_own(self):
        Queue().enqueue_many(range(5), max_attempts=1)
        Queue().enqueue({}, delay=60)
        for settle in (Queue().ack, Queue().nack, lambda job: Queue().cancel(id=job.id)):
            settle(Queue().lease_one())
        [report] = stats.report("default")
        self.assertEqual(report.stats, Queue().stats())
        self.assertEqual(report.stats, QueueStats(2, 1, 0, 1, 1, 1, 6))

    def test_since_when_the_first_due_job_waits(self):
        first, _ = Queue().enqueue_many([1, 2])
        alter(first, available_at=Ahead(-600))
        Queue("later").enqueue({}, delay=60)
        waiting = {each.queue: each.waiting_since for each in stats.report("default")}
        self.assertIsNone(waiting["later"])
        self.assertAlmostEqual(
            waiting["default"], now() - timedelta(seconds=600), delta=timedelta(seconds=60)
        )

    def test_paused_queues_are_marked(self):
        for name in ("a", "b"):
            Queue(name).enqueue({})
        transitions.pause("default", "b")
        self.assertEqual([each.paused for each in stats.report("default")], [False, True])

    def test_broken_payloads_are_counted(self):
        insert("{")
        self.assertEqual(stats.report("default")[0].stats.ready, 1)
