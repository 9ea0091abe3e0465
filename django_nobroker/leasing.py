"""Holding jobs by hand: leasing them from a queue, and settling them.

What settles a job is the instance that leased it: one that was only read, though it shows the
job leased, has the fence of somebody else's lease and is refused.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import Error, connections

from . import conf, sql, transitions
from .backoff import wait_after
from .durations import seconds_of
from .exceptions import QueueError
from .failures import Failure, clean
from .integers import whole_number
from .models import Job
from .reading import QueueReader
from .transitions import settle

Seconds = float | timedelta


class QueueHolder(QueueReader):
    """What a holder of jobs does with a queue."""

    # The options that were given, not set in NOBROKER.
    _own: dict[str, Any]
    # By the monotonic clock: since when no call has failed to reach the database.
    _in_touch_since: float | None = None

    @property
    def options(self) -> conf.QueueOptions:
        """The options in force: this object's own, else those of the settings."""
        options = conf.current().options(self.name)
        return replace(options, **self._own) if self._own else options

    def lease(self, count: int = 1, *, visibility_timeout: Seconds | None = None) -> list[Job]:
        """Lease up to `count` due jobs, highest priority first, for `visibility_timeout` seconds.

        A job whose last lease expired comes alone. Leases that expired are ended first, once this
        object has been in use for a whole visibility timeout without an error of the database.
        Raises LeaseInTransaction inside `atomic()`, a test's own excepted.
        """
        count = whole_number(count, "count", least=1)
        options = self.options
        seconds = options.visibility_timeout
        if visibility_timeout is not None:
            seconds = seconds_of(visibility_timeout, "visibility_timeout", at_least=0.1)
        connection = connections[self.alias]
        transitions.refuse_transaction(connection)
        try:
            self._reap(options)
            lanes = self._lanes(connection)
        except Error:
            # An outage: those who hold jobs could not renew them either, and are given the time.
            self._in_touch_since = None
            raise
        return self._lease_from(lanes, count, seconds)

    def lease_one(self, *, visibility_timeout: Seconds | None = None) -> Job | None:
        """Lease one due job, or return None."""
        jobs = self.lease(1, visibility_timeout=visibility_timeout)
        return jobs[0] if jobs else None

    def ack(self, job: Job) -> None:
        """Settle a leased job as done, in the caller's transaction if there is one.

        Raises LeaseLost if the job is no longer held, and marks that transaction for rollback.
        """
        forget = self.options.keep_done == 0
        settle.apply_one(self.alias, settle.acked(self._held(job), forget=forget))

    def nack(self, job: Job, *, error: object = None, delay: Seconds | None = None) -> Job:
        """Record a failed attempt; return the job, to be tried again or dead.

        `error` is an exception or a text. Without `delay` the queue's backoff says when.
        Raises LeaseLost if the job is no longer held.
        """
        job = self._held(job)
        if delay is None:
            seconds = wait_after(self.options.backoff, job.attempts)
        else:
            seconds = seconds_of(delay, "delay")
        settle.apply_one(self.alias, settle.nacked(job, Failure.of(error), seconds))
        return self.get(id=job.id)

    def extend(self, job: Job, seconds: Seconds) -> Job:
        """Move the deadline of a leased job to `seconds` from now; return the job.

        Raises LeaseLost if it is no longer held.
        """
        ahead = seconds_of(seconds, "seconds", at_least=0.0)
        if not settle.extend(self.alias, [(self._held(job), ahead)]):
            raise settle.lease_lost(self.alias, job)
        extended = self.get(id=job.id)
        # It is the same lease, unless that was lost before the row was read.
        extended.held_fence = job.held_fence
        return extended

    def progress(self, job: Job, fraction: float, note: str = "") -> None:
        """Note how far a leased job has come: a fraction from 0 to 1, and a text.

        Raises LeaseLost if it is no longer held.
        """
        if isinstance(fraction, bool) or not isinstance(fraction, int | float):
            raise QueueError(f"fraction must be a number from 0 to 1, not {fraction!r:.80}.")
        if not 0 <= fraction <= 1:
            raise QueueError(f"fraction must be from 0 to 1, not {fraction}.")
        settle.progress(self.alias, self._held(job), float(fraction), clean(str(note), 200))

    def _lanes(self, connection: Any) -> list[sql.Lane]:
        lanes = sql.dialect(connection).lanes(connection, [self.name])
        due = [lane for lane in lanes if lane.due_in <= 0]
        return sorted(due, key=lambda lane: (-lane.priority, lane.due_in))

    def _lease_from(self, lanes: list[sql.Lane], count: int, seconds: float) -> list[Job]:
        jobs: list[Job] = []
        for lane in lanes:
            if lane.solo and jobs:
                break
            wanted = 1 if lane.solo else count - len(jobs)
            try:
                jobs += transitions.lease(self.alias, sql.Claim(lane, wanted, _holder(), seconds))
            except Error:
                self._in_touch_since = None
                if not jobs:
                    raise
                # What is leased must reach the caller; the next call meets the error again.
                break
            if len(jobs) >= count or (jobs and lane.solo):
                break
        return jobs

    def _reap(self, options: conf.QueueOptions) -> None:
        now = time.monotonic()
        if self._in_touch_since is None:
            self._in_touch_since = now
            return
        in_touch = now - self._in_touch_since
        if in_touch >= options.visibility_timeout:
            expired = transitions.queues_with_expired(self.alias, [self.name])
            transitions.reap(self.alias, lambda name: options, in_touch=in_touch, queues=expired)

    def _held(self, job: Job) -> Job:
        if job.queue != self.name:
            raise QueueError(f"{job} does not belong to queue {self.name}.")
        if job.held_fence is None or job.held_fence != job.fence:
            raise settle.lease_lost(self.alias, job)
        return job


def _holder() -> str:
    """Return who leases by hand: this process, by host and number."""
    return f"{clean(socket.gethostname(), 120)}:{os.getpid()}"
