"""How long a failed job waits: finite, bounded and spread, whatever the numbers."""

import math

from django.test import SimpleTestCase
from hypothesis import given
from hypothesis import strategies as st

from django_nobroker import BackoffPolicy, QueueError
from django_nobroker.backoff import MAX_DELAY


class CeilingTests(SimpleTestCase):
    def test_grows_by_the_factor_up_to_the_most(self):
        policy = BackoffPolicy()
        self.assertEqual([policy.ceiling(n) for n in (1, 2, 3, 9, 10)], [1, 2, 4, 256, 300])

    def test_before_the_first_attempt_is_as_the_first(self):
        self.assertEqual([BackoffPolicy().ceiling(n) for n in (0, -5)], [1, 1])

    def test_the_power_cannot_overflow(self):
        for factor in (1.0001, 2, 5, 1e6):
            for attempt in (50, 500, 5_000, 32_767):
                with self.subTest(factor=factor, attempt=attempt):
                    policy = BackoffPolicy(factor=factor, max_delay=3600)
                    self.assertLessEqual(policy.ceiling(attempt), 3600)
                    self.assertTrue(math.isfinite(policy.delay(attempt)))

    def test_a_tiny_base_still_grows(self):
        policy = BackoffPolicy(base=1e-6, factor=2, max_delay=300)
        self.assertEqual(policy.ceiling(1_000), 300)
        self.assertAlmostEqual(policy.ceiling(21), 1.048576)

    def test_no_wait_at_all(self):
        self.assertEqual(BackoffPolicy(base=0).delay(32_767), 0)
        self.assertEqual(BackoffPolicy(max_delay=0).delay(3), 0)
        self.assertEqual(BackoffPolicy(factor=0, jitter=0).delay(2), 0)


class DelayTests(SimpleTestCase):
    @given(
        base=st.floats(0, MAX_DELAY),
        factor=st.floats(0, 1e6),
        most=st.floats(0, MAX_DELAY),
        jitter=st.floats(0, 1),
        attempt=st.integers(-1, 40_000),
    )
    def test_is_finite_and_within_bounds(self, base, factor, most, jitter, attempt):
        policy = BackoffPolicy(base, factor, most, jitter)
        delay = policy.delay(attempt)
        self.assertTrue(0 <= delay <= most)
        self.assertLessEqual(delay, policy.ceiling(attempt))
        self.assertGreaterEqual(delay, policy.ceiling(attempt) * (1 - jitter) * 0.999_999)

    def test_half_is_fixed_and_half_is_random(self):
        delays = [BackoffPolicy().delay(1) for _ in range(500)]
        self.assertTrue(all(0.5 <= delay <= 1 for delay in delays))
        self.assertGreater(max(delays) - min(delays), 0.3)

    def test_without_jitter_it_is_exact(self):
        self.assertEqual(BackoffPolicy(jitter=0).delay(3), 4)


class ConstructionTests(SimpleTestCase):
    def test_impossible_values(self):
        for name in ("base", "factor", "max_delay", "jitter"):
            for value in (math.inf, -math.inf, math.nan, -1, -0.1, 1e300, None, "1", True, 1j):
                with (
                    self.subTest(name=name, value=value),
                    self.assertRaisesMessage(QueueError, name),
                ):
                    BackoffPolicy(**{name: value})

    def test_is_frozen_and_comparable(self):
        self.assertEqual(BackoffPolicy(base=2), BackoffPolicy(base=2))
        with self.assertRaises(AttributeError):
            BackoffPolicy().base = 5
