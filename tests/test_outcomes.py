"""What a handler may raise to choose the outcome of its own job."""

import math
from datetime import timedelta

from django.test import SimpleTestCase

from django_nobroker import QueueError, Reject, Retry, Snooze


class OutcomeTests(SimpleTestCase):
    def test_a_reason_is_the_text(self):
        self.assertEqual(str(Reject("no such user")), "no such user")
        self.assertEqual(str(Retry("busy", delay=5)), "busy")
        self.assertTrue(str(Reject()) and str(Retry()))

    def test_durations(self):
        self.assertEqual(Snooze(timedelta(minutes=1)).seconds, 60)
        self.assertEqual(Retry(delay=timedelta(seconds=2)).delay, 2)
        self.assertEqual(Retry().delay, 0)

    def test_a_snooze_is_at_least_a_second(self):
        self.assertEqual(Snooze(1).seconds, 1)
        for seconds in (0.999, 0, -1, math.nan, math.inf, 10**12, None, "1"):
            with self.subTest(seconds=seconds), self.assertRaises(QueueError):
                Snooze(seconds)

    def test_an_impossible_delay(self):
        for delay in (math.nan, math.inf, 10**12, "1"):
            with self.subTest(delay=delay), self.assertRaises(QueueError):
                Retry(delay=delay)
