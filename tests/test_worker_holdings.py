"""What a worker holds, and when its claimer is woken."""

from django.test import SimpleTestCase

from django_nobroker.conf import QueueOptions
from django_nobroker.models import Job
from django_nobroker.worker.handlers import Handler
from django_nobroker.worker.holdings import Held, Holdings

LONG_AGO, NEVER = 0.0, float("inf")


def held(pk, *, fence=1, solo=False, deadline=NEVER):
    job = Job(id=pk, queue="default", payload_text="{}", fence=fence)
    return Held(job, Handler.of(print), QueueOptions(), deadline=deadline, solo=solo)


class HeldTests(SimpleTestCase):
    def test_lapses_with_its_deadline(self):
        self.assertFalse(held(1).lapsed)
        self.assertTrue(held(1, deadline=LONG_AGO).lapsed)

    def test_lapses_when_it_is_lost(self):
        one = held(1)
        one.lose()
        self.assertTrue(one.lapsed)
        self.assertTrue(one.job.lease_lost)

    def test_losing_it_cancels_what_can_be_cancelled(self):
        calls = []
        one = held(1)
        one.cancel = lambda: calls.append("cancelled")
        one.lose()
        self.assertEqual(calls, ["cancelled"])


class HoldingsTests(SimpleTestCase):
    def setUp(self):
        self.wakes = 0
        self.holdings = Holdings(self.wake)

    def wake(self):
        self.wakes += 1

    def test_counts_what_is_held_and_what_is_unfinished(self):
        first, second = held(1), held(2)
        self.holdings.add([first, second])
        self.assertEqual((len(self.holdings), self.holdings.unfinished), (2, 2))
        self.holdings.finished(first)
        self.assertEqual((len(self.holdings), self.holdings.unfinished), (2, 1))
        self.assertTrue(first.is_finished)
        self.holdings.settled([first])
        self.assertEqual(self.holdings.all(), [second])

    def test_settling_twice_is_settling_once(self):
        solo = held(1, solo=True)
        self.holdings.add([solo])
        self.holdings.settled([solo])
        self.holdings.settled([solo])
        self.assertFalse(self.holdings.has_solo)
        self.holdings.add([held(2, solo=True)])
        self.assertTrue(self.holdings.has_solo)

    def test_a_suspect_is_one_until_it_is_settled(self):
        solo = held(1, solo=True)
        self.holdings.add([solo])
        self.holdings.finished(solo)
        self.assertTrue(self.holdings.has_solo)
        self.holdings.settled([solo])
        self.assertFalse(self.holdings.has_solo)

    def test_wakes_the_claimer_at_its_mark(self):
        jobs = [held(pk) for pk in range(4)]
        self.holdings.add(jobs)
        self.holdings.wake_at = 2
        self.holdings.finished(jobs[0])
        self.assertEqual(self.wakes, 0)
        self.holdings.finished(jobs[1])
        self.assertEqual(self.wakes, 1)

    def test_wakes_the_claimer_that_waits_for_a_settled_job(self):
        jobs = [held(1), held(2)]
        self.holdings.add(jobs)
        self.holdings.settled(jobs[:1])
        self.assertEqual(self.wakes, 0)
        self.holdings.wake_when_settled = True
        self.holdings.settled(jobs[1:])
        self.assertEqual(self.wakes, 1)

    def test_stalls_while_jobs_run_and_none_ends(self):
        self.assertFalse(self.holdings.is_stalled(-1))
        one = held(1)
        self.holdings.add([one])
        self.assertTrue(self.holdings.is_stalled(-1))
        self.assertFalse(self.holdings.is_stalled(3600))
        self.holdings.finished(one)
        self.assertFalse(self.holdings.is_stalled(-1))

    def test_one_that_is_given_back_unstarted_is_no_end_of_a_stall(self):
        slow, waiting, quick = held(1), held(2), held(3)
        self.holdings.add([slow, waiting, quick])
        quick.started = 1.0
        self.holdings._moved_at -= 3600
        self.holdings.finished(waiting)
        self.assertTrue(self.holdings.is_stalled(60))
        self.holdings.finished(quick)
        self.assertFalse(self.holdings.is_stalled(60))

    def test_two_leases_of_one_job_are_held_side_by_side(self):
        older, newer = held(1, fence=1), held(1, fence=3)
        for one in (older, newer):
            self.holdings.add([one])
        self.assertEqual(self.holdings.all(), [older, newer])
        self.assertEqual((older.is_lost, newer.is_lost), (True, False))
        self.holdings.settled([older])
        self.assertEqual(self.holdings.all(), [newer])

    def test_names_once_what_has_run_out(self):
        lapsed = held(1, deadline=LONG_AGO)
        self.holdings.add([lapsed, held(2)])
        self.assertEqual(self.holdings.lapsed_now(), [lapsed])
        self.assertTrue(lapsed.job.lease_lost)
        # The database has not said so yet: it may be renewed after all.
        self.assertFalse(lapsed.is_lost)
        self.assertEqual(self.holdings.lapsed_now(), [])
