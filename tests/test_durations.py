"""Seconds and timedeltas: one kind of number, within the limits of time."""

import math
from datetime import UTC, datetime, timedelta

from django.test import SimpleTestCase

from django_nobroker import QueueError
from django_nobroker.durations import LATEST, seconds_of


class SecondsOfTests(SimpleTestCase):
    def test_seconds_and_timedeltas(self):
        self.assertEqual(seconds_of(3, "delay"), 3.0)
        self.assertEqual(seconds_of(0.25, "delay"), 0.25)
        self.assertEqual(seconds_of(timedelta(minutes=1, milliseconds=1), "delay"), 60.001)
        self.assertEqual(seconds_of(-5, "delay"), -5)

    def test_what_is_no_duration(self):
        for value in (None, "5", True, [], 1j, object(), datetime.now(UTC)):
            with self.subTest(value=value), self.assertRaisesMessage(QueueError, "delay must be"):
                seconds_of(value, "delay")

    def test_what_is_not_finite(self):
        for value in (math.nan, math.inf, -math.inf, 10**400, -(10**400)):
            with self.subTest(value=str(value)[:5]), self.assertRaises(QueueError):
                seconds_of(value, "delay")

    def test_past_the_year_9999(self):
        left = (LATEST - datetime.now(UTC)).total_seconds()
        self.assertEqual(seconds_of(left - 3600, "delay"), left - 3600)
        for value in (left + 3600, 10**12, timedelta.max):
            with self.subTest(value=value), self.assertRaisesMessage(QueueError, "9999"):
                seconds_of(value, "delay")

    def test_at_least(self):
        self.assertEqual(seconds_of(1, "Snooze", at_least=1), 1)
        with self.assertRaisesMessage(QueueError, "Snooze must be at least 1 seconds, not 0.5"):
            seconds_of(0.5, "Snooze", at_least=1)
