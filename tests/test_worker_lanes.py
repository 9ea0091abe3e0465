"""The order in which lanes are claimed from; read anew when the last reading is out of date."""

from django.test import SimpleTestCase

from django_nobroker.sql import Lane
from django_nobroker.worker.lanes import Lanes
from django_nobroker.worker.options import WorkerOptions


class LanesTests(SimpleTestCase):
    def lanes(self, *found, **options):
        self.reads = []

        def read(queues):
            self.reads.append(queues)
            return list(found)

        return Lanes(WorkerOptions.checked(**options), read)

    def order(self, lanes):
        return [(lane.queue, lane.priority) for lane in lanes.due()]

    def test_named_queues_in_strict_order(self):
        lanes = self.lanes(
            Lane("a", 0, 0, -5), Lane("b", 0, 0, -9), Lane("a", 7, 0, -1), queues=["b", "a"]
        )
        self.assertEqual(self.order(lanes), [("b", 0), ("a", 7), ("a", 0)])
        lanes.served("b")
        self.assertEqual(self.order(lanes), [("b", 0), ("a", 7), ("a", 0)])
        self.assertEqual(self.reads[0], ("b", "a"))

    def test_all_queues_in_turn(self):
        lanes = self.lanes(Lane("a", 0, 0, -1), Lane("b", 0, 0, -1), Lane("c", 0, 0, -1))
        served = []
        for _ in range(5):
            first = lanes.due()[0].queue
            served.append(first)
            lanes.served(first)
        self.assertEqual(served, ["a", "b", "c", "a", "b"])
        self.assertIsNone(self.reads[0])

    def test_a_turn_is_for_whoever_has_work(self):
        lanes = self.lanes(Lane("a", 0, 0, -1), Lane("c", 100, 0, -1))
        lanes.served("b")
        self.assertEqual(self.order(lanes), [("c", 100), ("a", 0)])

    def test_priority_rules_within_a_queue_only(self):
        lanes = self.lanes(Lane("a", -100, 0, -1), Lane("b", 100, 0, -1))
        self.assertEqual(self.order(lanes), [("a", -100), ("b", 100)])

    def test_of_one_priority_the_longest_due_comes_first(self):
        alone = Lane("a", 0, 2, -1)
        lanes = self.lanes(alone, Lane("a", 0, 0, -9), queues=["a"])
        self.assertEqual([lane.lease_losses for lane in lanes.due()], [0, 2])
        self.assertTrue(alone.solo)

    def test_what_is_not_due_waits(self):
        lanes = self.lanes(Lane("a", 0, 0, 3600), Lane("a", 1, 0, 7200), queues=["a"])
        self.assertEqual(lanes.due(), [])
        self.assertTrue(3500 < lanes.next_due() <= 3601)

    def test_nothing_to_come(self):
        lanes = self.lanes(Lane("a", 0, 0, -1), queues=["a"])
        self.assertIsNone(lanes.next_due())
        lanes.due()
        self.assertIsNone(lanes.next_due())

    def test_what_is_excluded_is_not_there(self):
        lanes = self.lanes(Lane("a", 0, 0, -1), Lane("b", 0, 0, 9), exclude=["a", "b"])
        self.assertEqual(lanes.due(), [])
        self.assertIsNone(lanes.next_due())

    def test_expired_lanes_are_read_again(self):
        lanes = self.lanes(Lane("a", 0, 0, -1), queues=["a"])
        lanes.due()
        lanes._fresh_until += 3600
        lanes.due()
        self.assertEqual(len(self.reads), 1)
        lanes.expire()
        lanes.due()
        self.assertEqual(len(self.reads), 2)

    def test_a_lane_that_gave_nothing_is_left_alone_until_its_head_changes(self):
        lanes = self.lanes(Lane("a", 0, 0, -1, head=7), Lane("b", 0, 0, -1, head=8))
        lanes.barren(lanes.due()[0])
        self.assertEqual(self.order(lanes), [("b", 0)])
        self.assertTrue(0 < lanes.next_due() < 1, "it is asked for again soon")
        lanes._read = lambda queues: [Lane("a", 0, 0, -1, head=9)]
        lanes.expire()
        self.assertEqual(self.order(lanes), [("a", 0)])
