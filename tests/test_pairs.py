"""Every pair of transitions that can meet: what the second one may still do.

The first one has happened; whoever comes second does not know, and goes by what it saw before.
It takes effect only where the table says so, and otherwise changes nothing whatever.
"""

import itertools

from django.db import connection
from django.test import TestCase

from django_nobroker import LeaseLost, Queue, conf, transitions
from django_nobroker.failures import Failure
from django_nobroker.models import Job
from django_nobroker.transitions import settle

from .rows import age, bring_forward, expire, snapshot

# So that a change made twice is seen twice.
NUMBERS = itertools.count(2)
OPTIONS = conf.QueueOptions(keep_done=86400, keep_dead=86400)


def rows(job):
    return Job.objects.filter(pk=job.pk)


def lease_anew(job):
    """Let somebody else lease the job, if it is to be had."""
    claim = Queue()
    return claim.lease_one() is not None


def settled(verdict):
    return bool(settle.apply("default", [verdict]))


def raising(call):
    """Return whether a call of the Queue found the job still held."""
    try:
        call()
    except LeaseLost:
        return False
    return True


# Each takes the job as its holder got it, and tells whether it took effect.
HOLDERS = {
    "ack": lambda job: raising(lambda: Queue().ack(job)),
    "nack": lambda job: raising(lambda: Queue().nack(job, error="x", delay=0)),
    "reject": lambda job: settled(settle.rejected(job, Failure.of("x"))),
    "release": lambda job: settled(settle.released(job)),
    "snooze": lambda job: settled(settle.snoozed(job, 5)),
    "extend": lambda job: raising(lambda: Queue().extend(job, 900)),
    "renew": lambda job: bool(settle.extend("default", [(job, 900)], wait=False)),
    "progress": lambda job: raising(lambda: Queue().progress(job, 1 / next(NUMBERS))),
}
OTHERS = {
    "reap": lambda job: bool(transitions.reap("default", lambda name: OPTIONS, in_touch=1e9)),
    "lease": lease_anew,
    "cancel": lambda job: bool(transitions.cancel(rows(job))),
    "requeue": lambda job: bool(transitions.requeue(rows(job))),
    "edit": lambda job: bool(transitions.edit(rows(job), payload_text=str(next(NUMBERS)))),
    "delete": lambda job: bool(transitions.delete(rows(job))),
    "prune": lambda job: bool(transitions.prune("default", OPTIONS, {})),
}
EVERY = HOLDERS | OTHERS

HELD = set(HOLDERS)
READY = {"lease", "cancel", "edit", "delete"}
DEAD = {"requeue", "edit", "delete", "prune"}
CANCELLED = {"requeue", "delete", "prune"}
DONE = {"delete", "prune"}
GONE = set()

# A lease that has run out, what happens first, and what may then happen second.
FROM_LEASED = {
    "ack": DONE,
    "nack": READY,
    "reject": DEAD,
    "release": READY,
    # Not due again, so not to be leased.
    "snooze": READY - {"lease"},
    # The deadline is ahead again, so it is not to be reaped.
    "extend": HELD | {"cancel", "delete"},
    "renew": HELD | {"cancel", "delete"},
    "progress": HELD | {"reap", "cancel", "delete"},
    "reap": READY - {"lease"},
    "cancel": CANCELLED,
    "delete": GONE,
    # What cannot happen to a leased job leaves all as it was.
    "requeue": HELD | {"reap", "cancel", "delete"},
    "edit": HELD | {"reap", "cancel", "delete"},
    "prune": HELD | {"reap", "cancel", "delete"},
    "lease": HELD | {"reap", "cancel", "delete"},
}
# The same for a job on its last attempt.
FROM_LAST_ATTEMPT = {"nack": DEAD, "reap": DEAD}
# The job is back with another worker, whose lease is not the first holder's.
FROM_SECOND_LEASE = {
    ("nack", "lease"): {"cancel", "delete"},
    ("release", "lease"): {"cancel", "delete"},
    ("reap", "bring_forward", "lease"): {"cancel", "delete"},
    ("cancel", "requeue", "lease"): {"cancel", "delete"},
    ("reject", "requeue"): READY,
    ("reject", "edit"): DEAD,
    ("release", "edit"): READY,
}
FROM_READY = {
    "lease": {"cancel", "delete"},
    "cancel": CANCELLED,
    "edit": READY,
    "delete": GONE,
    "requeue": READY,
    "reap": READY,
    "prune": READY,
}


class PairTests(TestCase):
    def leased(self, **terms):
        job = Queue().enqueue({}, **terms)
        held = Queue(visibility_timeout=30).lease_one()
        self.assertEqual(held, job)
        return held

    def assertSecond(self, first, second, job, may):
        """Let the second one come; compare every column of the row and of its attempts."""
        before = snapshot(job)
        point = connection.savepoint()
        with self.subTest(first=first, second=second):
            self.assertEqual(EVERY[second](job), second in may)
            self.assertEqual(snapshot(job) != before, second in may)
        connection.savepoint_rollback(point)

    def run_table(self, table, make, seconds=EVERY):
        for first, may in table.items():
            job = make()
            for step in [first] if isinstance(first, str) else first:
                (EVERY | {"bring_forward": bring_forward})[step](job)
            for settled in rows(job).exclude(finished_at=None):
                age(settled)
            for second in seconds:
                self.assertSecond(first, second, job, may)
            Queue().purge()

    def expired(self, **terms):
        job = self.leased(**terms)
        expire(job)
        return job

    def test_every_first_transition_is_in_the_table(self):
        self.assertEqual(set(FROM_LEASED), set(EVERY))

    def test_from_a_lease_that_ran_out(self):
        self.run_table(FROM_LEASED, self.expired)

    def test_from_the_last_attempt(self):
        self.run_table(FROM_LAST_ATTEMPT, lambda: self.expired(max_attempts=1))

    def test_from_a_second_lease(self):
        self.run_table(FROM_SECOND_LEASE, self.expired)

    def test_from_ready(self):
        self.run_table(FROM_READY, lambda: Queue().enqueue({}), OTHERS)


class NotLeasedTests(TestCase):
    """A job that was looked up or enqueued is nobody's to settle."""

    def assertNothingHappens(self, job):
        before = snapshot(job)
        for name in ("ack", "nack", "extend", "progress"):
            with self.subTest(name=name, state=job.state):
                self.assertFalse(HOLDERS[name](job))
                self.assertEqual(snapshot(job), before)

    def test_a_job_just_enqueued(self):
        self.assertNothingHappens(Queue().enqueue({}))

    def test_a_job_looked_up(self):
        for name in ("ack", "nack", "reject", "cancel"):
            Queue().enqueue({})
            held = Queue().lease_one()
            EVERY[name](held)
            self.assertNothingHappens(Queue().get(id=held.id))
            Queue().purge()


class TwiceTests(TestCase):
    """The same transition twice counts once."""

    def test_each_holders(self):
        for name, move in HOLDERS.items():
            Queue().enqueue({})
            held = Queue().lease_one()
            with self.subTest(name=name):
                self.assertTrue(move(held))
                again = move(held)
                self.assertEqual(again, name in {"extend", "renew", "progress"})
            Queue().purge()

    def test_in_one_batch(self):
        Queue().enqueue({})
        held = Queue().lease_one()
        verdicts = [settle.acked(held), settle.rejected(held, Failure.of("x"))]
        self.assertEqual(settle.apply("default", verdicts), {held.id})
        self.assertEqual(Queue().get(id=held.id).state, "done")
        self.assertEqual(Queue().get(id=held.id).fence, 2)

    def test_a_batch_changes_only_what_is_held(self):
        Queue().enqueue_many(range(9))
        jobs = Queue().lease(9)
        lost, gone, held = jobs[::3], jobs[1::3], jobs[2::3]
        for job in lost:
            Queue().cancel(id=job.id)
        for job in gone:
            transitions.delete(rows(job))
        before = [snapshot(job) for job in lost]
        done = settle.apply("default", [settle.acked(job) for job in jobs])
        self.assertEqual(done, {job.id for job in held})
        self.assertEqual([snapshot(job) for job in lost], before)
        self.assertEqual(Queue().stats().done, 3)

    def test_a_batch_of_every_kind(self):
        Queue().enqueue_many(range(6))
        jobs = Queue().lease(6)
        Queue().cancel(id=jobs[5].id)
        failure = Failure.of("x")
        verdicts = [
            settle.acked(jobs[0], "1"),
            settle.nacked(jobs[1], failure, 60),
            settle.rejected(jobs[2], failure),
            settle.released(jobs[3]),
            settle.snoozed(jobs[4], 60),
            settle.nacked(jobs[5], failure, 0),
        ]
        done = settle.apply("default", verdicts)
        self.assertEqual(done, {job.id for job in jobs[:5]})
        states = [Queue().get(id=job.id).state for job in jobs]
        self.assertEqual(states, ["done", "ready", "dead", "ready", "ready", "cancelled"])
        self.assertEqual([job.failed_attempts.count() for job in jobs], [0, 1, 1, 0, 0, 0])
