"""Holding jobs by hand: who may settle what, and what an error on the way costs."""

import time
from unittest import mock

from django.db import OperationalError
from django.test import TestCase

from django_nobroker import LeaseLost, Queue, QueueError, transitions
from django_nobroker.models import Job
from django_nobroker.transitions import sweep

from .rows import alter, bring_forward, expire


class HolderTests(TestCase):
    """Only the instance that leased a job settles it."""

    def setUp(self):
        self.queue = Queue()
        self.queue.enqueue({})
        self.job = self.queue.lease_one()

    def assertRefusedAll(self, job):
        for name, call in {
            "ack": lambda: self.queue.ack(job),
            "nack": lambda: self.queue.nack(job),
            "extend": lambda: self.queue.extend(job, 60),
            "progress": lambda: self.queue.progress(job, 0.5),
        }.items():
            with self.subTest(name), self.assertRaises(LeaseLost):
                call()
        self.assertEqual(self.queue.get(id=job.id).state, "leased")

    def test_one_that_was_only_read_does_not(self):
        self.assertRefusedAll(self.queue.get(id=self.job.id))

    def test_nor_one_from_a_list(self):
        self.assertRefusedAll(self.queue.list_jobs("leased")[0])

    def take_away(self):
        expire(self.job)
        transitions.reap("default", lambda name: self.queue.options, in_touch=3600)
        bring_forward(self.job)
        return self.queue.lease_one()

    def test_nor_one_that_was_read_again_after_another_leased_it(self):
        self.take_away()
        self.job.refresh_from_db()
        self.assertRefusedAll(self.job)

    def test_nor_what_a_nack_returns(self):
        nacked = self.queue.nack(self.job, delay=0)
        other = self.queue.lease_one()
        nacked.refresh_from_db()
        self.assertRefusedAll(nacked)
        self.queue.ack(other)

    def test_nor_one_of_another_database(self):
        self.job._state.db = "other"
        for call in (
            self.queue.ack,
            self.queue.nack,
            lambda job: self.queue.extend(job, 60),
            lambda job: self.queue.progress(job, 0.5),
        ):
            with self.assertRaisesMessage(QueueError, "in the database 'other'"):
                call(self.job)
        self.assertEqual(self.queue.get(id=self.job.id).state, "leased")

    def test_what_an_extension_returns_does(self):
        self.queue.ack(self.queue.extend(self.job, 60))
        self.assertEqual(self.queue.get(id=self.job.id).state, "done")

    def test_unless_the_lease_was_lost_before_the_row_was_read(self):
        """Between the two statements of extend()."""

        def get_after_loss(queue, *, id):
            self.take_away()
            return Job.objects.get(pk=id)

        with mock.patch.object(Queue, "get", get_after_loss):
            extended = self.queue.extend(self.job, 60)
        self.assertRefusedAll(extended)

    def test_it_still_does_after_a_second_lease_was_refused(self):
        self.assertIsNone(self.queue.lease_one())
        self.queue.ack(self.job)


class ErrorTests(TestCase):
    """The database fails in the middle of a lease."""

    def setUp(self):
        self.queue = Queue()
        self.high = self.queue.enqueue("high", priority=1)
        self.low = self.queue.enqueue("low")

    def fail_at(self, number):
        """Let the lease of the lane of that number fail."""
        calls = []

        def lease(alias, claim):
            calls.append(claim)
            if len(calls) == number:
                raise OperationalError("gone")
            return self.lease(alias, claim)

        self.lease = transitions.lease
        return mock.patch.object(transitions, "lease", lease)

    def test_what_was_leased_before_it_reaches_the_caller(self):
        with self.fail_at(2):
            self.assertEqual(self.queue.lease(2), [self.high])
        self.assertEqual(self.queue.lease(2), [self.low])

    def test_with_nothing_leased_it_is_raised(self):
        with self.fail_at(1), self.assertRaises(OperationalError):
            self.queue.lease(2)
        self.assertEqual(self.queue.stats().ready, 2)


class ReapingByHandTests(TestCase):
    def setUp(self):
        self.queue = Queue()
        self.queue.enqueue({})
        self.job = self.queue.lease_one()
        expire(self.job)

    def look_again(self, seconds):
        """Let the queue look again, so long after it last did."""
        self.queue._looked_at -= 3600
        self.queue._expired = {
            lease: since - seconds for lease, since in self.queue._expired.items()
        }
        self.queue.lease_one()
        return self.queue.list_jobs()[0]

    def test_only_when_it_was_seen_expired_a_whole_timeout_ago(self):
        self.assertEqual(self.look_again(0).state, "leased")
        self.assertEqual(self.look_again(29).state, "leased")
        job = self.look_again(1)
        self.assertEqual((job.state, job.lease_losses), ("ready", 1))

    def test_not_after_a_silence(self):
        """An outage may have kept the holder from renewing until just now."""
        self.queue._looked_at -= 3600
        self.queue.lease_one()
        self.assertEqual(self.queue.list_jobs()[0].state, "leased")

    def test_not_one_beside_it_that_was_seen_for_the_first_time(self):
        self.look_again(0)
        self.queue.enqueue({})
        other = self.queue.lease_one()
        expire(other)
        self.look_again(30)
        self.assertEqual(self.queue.get(id=self.job.id).state, "ready")
        self.assertEqual(self.queue.get(id=other.id).state, "leased")

    def test_not_a_second_lease_that_expired_at_the_same_time(self):
        """An hour that comes twice, or a row that was restored."""
        self.look_again(0)
        alter(self.job, fence=self.job.fence + 2)
        self.assertEqual(self.look_again(3600).state, "leased")

    def test_not_when_it_was_held_up(self):
        self.look_again(0)
        with mock.patch.object(sweep, "PATIENCE", -1):
            self.assertEqual(self.look_again(30).state, "leased")
        self.assertEqual(self.look_again(0).state, "ready")

    def test_only_so_often(self):
        with mock.patch.object(transitions, "expired_leases", return_value=set()) as look:
            for _ in range(3):
                self.queue.lease_one()
            self.assertEqual(look.call_count, 0)
            self.queue._looked_at -= 7.5
            self.queue.lease_one()
            self.assertEqual(look.call_count, 1)

    def test_not_one_that_was_renewed_meanwhile(self):
        self.look_again(0)
        self.queue.extend(self.job, 0)
        time.sleep(0.001)
        self.assertEqual(self.look_again(3600).state, "leased")
