"""How far ahead a worker leases: far for quick handlers, not at all for slow ones."""

from django.test import SimpleTestCase

from django_nobroker.models import Job
from django_nobroker.worker.pace import AHEAD, GROWTH, MOST, MOST_TEXT, Pace


def jobs(count, text="{}"):
    return [Job(payload_text=text) for _ in range(count)]


class PaceTests(SimpleTestCase):
    def pace(self, concurrency=1, claimed=MOST, text="{}"):
        pace = Pace(concurrency)
        pace.claimed(jobs(claimed, text))
        return pace

    def test_nothing_ahead_before_anything_is_known(self):
        self.assertEqual(self.pace().prefetch(), 0)

    def test_quick_handlers_are_leased_far_ahead(self):
        pace = self.pace()
        pace.ran(0.00001)
        self.assertEqual(pace.prefetch(), MOST)

    def test_no_more_than_a_tenth_of_a_second_of_work(self):
        pace = self.pace(concurrency=4)
        pace.ran(0.01)
        self.assertEqual(pace.prefetch(), round(4 * AHEAD / 0.01))

    def test_slow_handlers_have_nothing_ahead(self):
        pace = self.pace()
        pace.ran(0.5)
        self.assertEqual(pace.prefetch(), 0)

    def test_one_slow_job_is_believed_at_once(self):
        pace = self.pace()
        for _ in range(100):
            pace.ran(0.0001)
        pace.ran(1.0)
        self.assertEqual(pace.prefetch(), 0)

    def test_quick_jobs_are_believed_by_and_by(self):
        pace = self.pace()
        pace.ran(1.0)
        pace.ran(0.0001)
        self.assertEqual(pace.prefetch(), 0)
        for _ in range(100):
            pace.ran(0.0001)
        self.assertGreater(pace.prefetch(), 100)

    def test_a_claim_grows_step_by_step(self):
        pace = self.pace(claimed=1)
        pace.ran(0.00001)
        self.assertEqual(pace.prefetch(), GROWTH)
        pace.claimed(jobs(GROWTH))
        self.assertEqual(pace.prefetch(), GROWTH * GROWTH)

    def test_large_payloads_are_held_in_small_number(self):
        pace = self.pace(claimed=2, text="x" * (MOST_TEXT // 3))
        pace.ran(0.00001)
        self.assertEqual(pace.prefetch(), 3)

    def test_a_handler_that_takes_no_time_at_all(self):
        pace = self.pace()
        pace.ran(0.0)
        self.assertEqual(pace.prefetch(), MOST)
