"""Which job comes next: queues in strict order or in turn, priorities, pauses, turns."""

from unittest import mock

from django.test import TestCase

from django_nobroker import Queue, transitions
from django_nobroker.worker import lanes
from tests.rows import alter, bring_forward
from tests.work import Quiet, fresh, states, work


class OrderTests(Quiet, TestCase):
    def setUp(self):
        super().setUp()
        self.seen = []

    def see(self, job):
        self.seen.append(job.payload)

    def fill(self, name, count, **options):
        return Queue(name).enqueue_many([f"{name}{n}" for n in range(count)], **options)

    def test_first_in_first_out(self):
        self.fill("a", 30)
        work(self.see, ["a"])
        self.assertEqual(self.seen, [f"a{n}" for n in range(30)])

    def test_strict_order(self):
        self.fill("low", 12)
        self.fill("high", 12)
        work(self.see, ["high", "low"])
        self.assertEqual(
            self.seen, [*(f"high{n}" for n in range(12)), *(f"low{n}" for n in range(12))]
        )

    def test_what_comes_in_strict_order_comes_next(self):
        self.fill("low", 2)

        def handler(job):
            self.see(job)
            if job.payload == "low0":
                self.fill("high", 1)

        # The lanes are believed for some milliseconds after they were read: here, for none.
        with mock.patch.object(lanes, "FRESH", 0.0):
            work(handler, ["high", "low"])
        self.assertEqual(self.seen, ["low0", "high0", "low1"])

    def test_in_turn_a_flood_starves_nobody(self):
        self.fill("a", 700)
        self.fill("b", 1)
        self.fill("c", 1)
        work(self.see, None)
        self.assertEqual(len(self.seen), 702)
        self.assertEqual(self.seen[:3], ["a0", "b0", "c0"])

    def test_in_turn_priorities_of_one_queue_are_nothing_to_another(self):
        self.fill("a", 3, priority=100)
        self.fill("b", 1, priority=-100)
        work(self.see, None)
        self.assertEqual(self.seen[:2], ["a0", "b0"])

    def test_priorities(self):
        for priority in (0, -100, 100, 7):
            Queue("a").enqueue(priority, priority=priority)
        work(self.see, ["a"])
        self.assertEqual(self.seen, [100, 7, 0, -100])

    def test_serves_its_queues_and_no_other(self):
        for name in ("a", "b", "c"):
            self.fill(name, 1)
        work(self.see, ["c", "a"])
        self.assertEqual(self.seen, ["c0", "a0"])

    def test_serves_all_but_what_is_excluded(self):
        for name in ("a", "b", "c"):
            self.fill(name, 1)
        work(self.see, None, exclude=["b"])
        self.assertEqual(self.seen, ["a0", "c0"])
        self.assertEqual(Queue("b").stats().ready, 1)

    def test_excluded_beats_named(self):
        self.fill("a", 1)
        work(self.see, ["a"], exclude=["a"])
        self.assertEqual(self.seen, [])

    def test_a_queue_that_does_not_exist(self):
        self.fill("a", 1)
        work(self.see, ["nosuch", "a"])
        self.assertEqual(self.seen, ["a0"])

    def test_a_paused_queue_waits(self):
        [job] = self.fill("a", 1)
        self.fill("b", 1)
        transitions.pause("default", "a", by="ada")
        work(self.see, None)
        self.assertEqual(self.seen, ["b0"])
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 0))
        self.assertTrue(transitions.resume("default", "a"))
        work(self.see, None)
        self.assertEqual(self.seen, ["b0", "a0"])

    def test_a_delayed_job_waits_for_its_time(self):
        [later] = self.fill("a", 1, delay=3600)
        self.fill("b", 1)
        work(self.see, None)
        self.assertEqual(self.seen, ["b0"])
        bring_forward(later)
        work(self.see, None)
        self.assertEqual(self.seen, ["b0", "a0"])

    def test_future_jobs_of_a_higher_priority_are_in_nobodys_way(self):
        self.fill("a", 50, priority=100, delay=3600)
        self.fill("a", 2, priority=-100)
        work(self.see, ["a"])
        self.assertEqual(self.seen, ["a0", "a1"])

    def test_a_suspect_waits_for_its_place_by_time(self):
        first, suspect, last = self.fill("a", 3)
        alter(suspect, lease_losses=1)
        work(self.see, ["a"])
        self.assertCountEqual(self.seen, ["a0", "a1", "a2"])
        self.assertEqual(states(first, suspect, last), ["done"] * 3)
