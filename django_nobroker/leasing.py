"""Holding jobs by hand: leasing them from a queue, and settling them.

What settles a job is the instance that leased it: one that was only read, though it shows the
job leased, has the fence of somebody else's lease and is refused.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from dataclasses import replace
from datetime import datetime, timedelta
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
# The part of a visibility timeout after which a queue looks again for expired leases.
LOOK_EVERY = 0.25


class QueueHolder(QueueReader):
    """What a holder of jobs does with a queue."""

    # The options that were given, not set in NOBROKER.
    _own: dict[str, Any]
    # Leases that had expired when they were first seen, and when that was, by the monotonic clock.
    _expired: dict[tuple[int, int, datetime | None], float]
    _looked_at = 0.0

    @property
    def options(self) -> conf.QueueOptions:
        """The options in force: this object's own, else those of the settings."""
        options = conf.current().options(self.name)
        return replace(options, **self._own) if self._own else options

    def lease(self, count: int = 1, *, visibility_timeout: Seconds | None = None) -> list[Job]:
        """Lease up to `count` due jobs, highest priority first, for `visibility_timeout` seconds.

        A job whose last lease expired comes alone. A lease that expired is ended first, if it had
        expired a whole visibility timeout ago, when this object looked, and was not renewed since.
        Raises LeaseInTransaction inside `atomic()`, a test's own excepted.
        """
        count = whole_number(count, "count", least=1)
        options = self.options
        seconds = options.visibility_timeout
        if visibility_timeout is not None:
            seconds = seconds_of(visibility_timeout, "visibility_timeout", at_least=0.1)
        connection = connections[self.alias]
        transitions.refuse_transaction(connection)
        self._reap(options)
        return self._lease_from(self._lanes(connection), count, seconds)

    def lease_one(self, *, visibility_timeout: Seconds | None = None) -> Job | None:
        """Lease one due job, or return None."""
        jobs = self.lease(1, visibility_timeout=visibility_timeout)
        return jobs[0] if jobs else None

    def ack(self, job: Job) -> None:
        """Settle a leased job as done, in the caller's transaction if there is one.

        Raises LeaseLost if the job is no longer held, and marks that transaction for rollback.
        """
        forget = self.options.keep_done == 0
        self._settle(settle.acked(self._held(job), forget=forget))

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
        self._settle(settle.nacked(job, Failure.of(error), seconds))
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

    def _settle(self, verdict: settle.Verdict) -> None:
        settle.apply_one(self.alias, verdict)
        # For the worker, if it is one of its handlers that settles its own job.
        verdict.job.verdict_by_hand = verdict

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
                if not jobs:
                    raise
                # What is leased must reach the caller; the next call meets the error again.
                break
            if len(jobs) >= count or (jobs and lane.solo):
                break
        return jobs

    def _reap(self, options: conf.QueueOptions) -> None:
        """End leases that were seen expired before, long enough ago for a live holder to renew.

        Seen twice, not merely expired: after an outage every lease has expired, and nobody knows
        how long ago the other holders came back.
        """
        now = time.monotonic()
        if now - self._looked_at < options.visibility_timeout * LOOK_EVERY:
            return
        seen = transitions.expired_leases(self.alias, self.name)
        self._looked_at = now
        self._expired = {lease: self._expired.get(lease, now) for lease in seen}
        over = [
            id
            for (id, _, _), since in self._expired.items()
            if now - since >= options.visibility_timeout
        ]
        if not over:
            return
        with contextlib.suppress(transitions.HeldUp):
            transitions.reap(
                self.alias,
                lambda name: options,
                in_touch=math.inf,
                queues=[self.name],
                ids=over,
                asked=now,
            )

    def _held(self, job: Job) -> Job:
        if job.queue != self.name:
            raise QueueError(f"{job} does not belong to queue {self.name}.")
        if job._state.db != self.alias:
            raise QueueError(
                f"{job} is in the database {job._state.db!r}, this queue in {self.alias!r}."
            )
        if job.held_fence is None or job.held_fence != job.fence:
            raise settle.lease_lost(self.alias, job)
        return job


def _holder() -> str:
    """Return who leases by hand: this process, by host and number."""
    return f"{clean(socket.gethostname(), 120)}:{os.getpid()}"
