"""Holding jobs by hand: who may settle what, and what an error on the way costs."""

from unittest import mock

from django.db import OperationalError
from django.test import TestCase

from django_nobroker import LeaseLost, Queue, transitions
from django_nobroker.models import Job

from .rows import expire


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
        Job.objects.update(available_at="2020-01-01T00:00:00Z")
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

    def test_those_who_hold_jobs_are_given_the_time_to_renew(self):
        expire(self.queue.lease_one())
        self.queue._in_touch_since -= 3600
        with self.fail_at(1), self.assertRaises(OperationalError):
            self.queue.lease(2)
        # The first was reaped before the error; from here on nothing is, for a whole timeout.
        expire(self.queue.lease_one())
        self.queue.lease(2)
        self.assertEqual(self.queue.get(id=self.low.id).state, "leased")

    def test_an_error_of_the_reading_counts_as_well(self):
        expire(self.queue.lease_one())
        self.queue._in_touch_since -= 3600
        with (
            mock.patch.object(transitions, "queues_with_expired", side_effect=OperationalError),
            self.assertRaises(OperationalError),
        ):
            self.queue.lease()
        self.queue.lease(2)
        self.assertEqual(self.queue.get(id=self.high.id).state, "leased")
