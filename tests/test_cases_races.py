"""Two transactions that meet on one job while the first is still open.

The second waits or passes by; once the first has ended, it does what it may do after that end.
"""

from contextlib import suppress

from django.db import connection, transaction
from django.test import TransactionTestCase

from django_nobroker import BackoffPolicy, LeaseLost, Queue, transitions
from django_nobroker.conf import QueueOptions
from django_nobroker.models import Attempt, Job, State
from django_nobroker.transitions import settle

from . import rows
from .elsewhere import Elsewhere

queue = Queue("races", backoff=BackoffPolicy(base=0))
OPTIONS = QueueOptions(keep_done=0, backoff=BackoffPolicy(base=0))


def acknowledge(job):
    queue.ack(job)


def fail(job):
    queue.nack(job, error="failed")


def cancel(job):
    queue.cancel(id=job.id)


def delete(job):
    transitions.delete(queue.jobs.filter(pk=job.pk))


def extend(job):
    queue.extend(job, 600)


def reap(job):
    transitions.reap(queue.alias, lambda name: OPTIONS, in_touch=1e9, queues=[queue.name])


GONE = None
# First, second, the state that comes of it, and with the first rolled back.
MEETINGS = (
    (acknowledge, acknowledge, State.DONE, State.DONE),
    (acknowledge, fail, State.DONE, State.READY),
    (acknowledge, cancel, State.DONE, State.CANCELLED),
    (acknowledge, delete, GONE, GONE),
    (acknowledge, extend, State.DONE, State.LEASED),
    (fail, acknowledge, State.READY, State.DONE),
    (fail, fail, State.READY, State.READY),
    (fail, cancel, State.CANCELLED, State.CANCELLED),
    (cancel, acknowledge, State.CANCELLED, State.DONE),
    (cancel, fail, State.CANCELLED, State.READY),
    (cancel, cancel, State.CANCELLED, State.CANCELLED),
    (cancel, extend, State.CANCELLED, State.LEASED),
    (delete, acknowledge, GONE, State.DONE),
    (delete, cancel, GONE, State.CANCELLED),
    (delete, delete, GONE, GONE),
    (extend, acknowledge, State.DONE, State.DONE),
    (extend, cancel, State.CANCELLED, State.CANCELLED),
)


class RolledBack(Exception):
    pass


def quietly(call, job):
    with suppress(LeaseLost):
        call(job)


class MeetingTests(TransactionTestCase):
    def meet(self, first, second, *, commits):
        """Return the state that is left once both have ended."""
        queue.purge()
        queue.enqueue(0, max_attempts=9)
        job = queue.lease_one()
        with suppress(RolledBack), transaction.atomic():
            first(job)
            other = Elsewhere(quietly, second, job)
            # Not needed for the outcome, which is the same if it comes too late to wait.
            other.wait(0.05)
            if not commits:
                raise RolledBack
        other.answer()
        found = Job.objects.filter(pk=job.pk).first()
        return found and found.state

    def test_second_meets_the_outcome_of_the_first(self):
        for first, second, committed, rolled_back in MEETINGS:
            with self.subTest(first=first.__name__, second=second.__name__):
                self.assertEqual(self.meet(first, second, commits=True), committed)
                self.assertEqual(self.meet(first, second, commits=False), rolled_back)

    def test_failed_attempts_are_recorded_once(self):
        self.meet(fail, fail, commits=True)
        self.assertEqual(Attempt.objects.count(), 1)
        self.meet(acknowledge, fail, commits=True)
        self.assertEqual(Attempt.objects.filter(job__in=queue.jobs).count(), 0)


class PassingTests(TransactionTestCase):
    """The keeper and the reaper never wait on a row that a handler's transaction holds."""

    def setUp(self):
        if connection.vendor == "sqlite":
            self.skipTest("SQLite has one writer: all wait for it")
        held, free = queue.enqueue_many([0, 1])
        self.held, self.free = queue.lease(2)
        self.assertEqual((self.held.id, self.free.id), (held.id, free.id))

    def test_renewal_passes_by(self):
        with transaction.atomic():
            queue.ack(self.held)
            both = [(self.held, 600.0), (self.free, 600.0)]
            renewed = Elsewhere(settle.extend, queue.alias, both, wait=False).answer()
            self.assertEqual(renewed, {self.free.id})
            alive = Elsewhere(settle.still_held, queue.alias, [self.held, self.free]).answer()
            self.assertEqual(alive, {self.held.id, self.free.id})
        self.assertEqual(queue.get(id=self.held.id).state, State.DONE)

    def test_reaper_passes_by(self):
        rows.expire(self.held, self.free)
        with transaction.atomic():
            queue.ack(self.held)
            Elsewhere(reap, None).answer()
            self.assertEqual(queue.get(id=self.free.id).state, State.READY)
        self.assertEqual(queue.get(id=self.held.id).state, State.DONE)

    def test_pruner_passes_by(self):
        queue.ack(self.held)
        queue.ack(self.free)
        rows.age(self.held, self.free)
        with transaction.atomic():
            list(queue.jobs.filter(pk=self.held.pk).select_for_update())
            removed = Elsewhere(transitions.prune, queue.alias, OPTIONS, {}).answer()
            self.assertEqual(removed, 1)
        self.assertEqual([job.id for job in queue.list_jobs()], [self.held.id])

    def test_lease_passes_by(self):
        queue.enqueue_many([2, 3])
        with transaction.atomic():
            third = queue.jobs.filter(state=State.READY).order_by("pk").select_for_update()[0]
            [job] = Elsewhere(queue.lease, 5).answer()
            self.assertNotEqual(job.id, third.id)

    def test_batch_of_acks_waits_and_leaves_out_what_was_lost(self):
        with transaction.atomic():
            queue.cancel(id=self.held.id)
            verdicts = [settle.acked(self.held), settle.acked(self.free)]
            batch = Elsewhere(settle.apply, queue.alias, verdicts)
        self.assertEqual(batch.answer(), {self.free.id})


class OtherRowsTests(TransactionTestCase):
    """A change to many jobs waits for no row but theirs, however small the table is.

    Whoever passes by rows of others and waits for them is one half of a deadlock.
    """

    def setUp(self):
        if connection.vendor == "sqlite":
            self.skipTest("SQLite has one writer: all wait for it")
        self.jobs = queue.enqueue_many(range(40))
        self.held = self.jobs[20]
        others = [job.pk for job in self.jobs if job is not self.held]
        self.others = queue.jobs.filter(pk__in=others)

    def finished(self):
        transitions.cancel(queue.jobs)
        rows.age(*self.jobs)

    def test_no_change_waits_for_the_row_of_another(self):
        changes = {
            "cancel": lambda: transitions.cancel(self.others),
            "requeue": lambda: transitions.requeue(self.others),
            "edit": lambda: transitions.edit(self.others, priority=7),
            "delete": lambda: transitions.delete(self.others),
        }
        for name, change in changes.items():
            with self.subTest(change=name), transaction.atomic():
                list(queue.jobs.filter(pk=self.held.pk).select_for_update())
                self.assertEqual(Elsewhere(change).answer(), 39)

    def test_nor_does_pruning_with_the_attempts(self):
        self.finished()
        for job in self.jobs:
            Attempt.objects.create(job_id=job.id, fence=1, number=1)
        with transaction.atomic():
            list(queue.jobs.filter(pk=self.held.pk).select_for_update())
            removed = Elsewhere(transitions.prune, queue.alias, OPTIONS, {}).answer()
            self.assertEqual(removed, 39)
        self.assertEqual(Attempt.objects.get().job_id, self.held.id)

    def test_nor_do_verdicts_of_several_kinds(self):
        leased = queue.lease(20)
        verdicts = [settle.acked(job) for job in leased[::2]]
        verdicts += [settle.released(job) for job in leased[1::2]]
        with transaction.atomic():
            list(queue.jobs.filter(pk=self.held.pk).select_for_update())
            settled = Elsewhere(settle.apply, queue.alias, verdicts).answer()
            self.assertEqual(settled, {job.id for job in leased})


class LostInTransactionTests(TransactionTestCase):
    def test_late_ack_takes_the_effects_with_it(self):
        """The manual form of exactly once: what the handler wrote beside it is rolled back."""
        for call in (acknowledge, fail, extend, lambda job: queue.progress(job, 0.5)):
            queue.purge()
            queue.enqueue(0)
            job = queue.lease_one()
            cancel(job)
            with transaction.atomic():
                Queue("effects").enqueue(1)
                with self.assertRaises(LeaseLost):
                    call(job)
                self.assertTrue(connection.needs_rollback)
            self.assertEqual(Queue("effects").stats().total, 0)

    def test_late_ack_in_an_inner_block_spares_the_outer_one(self):
        queue.enqueue(0)
        job = queue.lease_one()
        cancel(job)
        with transaction.atomic():
            Queue("outer").enqueue(1)
            with suppress(LeaseLost), transaction.atomic():
                Queue("inner").enqueue(1)
                queue.ack(job)
        self.assertEqual(Queue("outer").stats().total, 1)
        self.assertEqual(Queue("inner").stats().total, 0)
