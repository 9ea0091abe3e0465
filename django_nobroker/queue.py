"""Queue: a name, its options, and the transitions as methods.

It holds no connection and no state but how long it has been in touch, so it may be made where
it is used and shared between threads.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Self

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, models

from . import conf, sql, transitions
from .backoff import BackoffPolicy, checked_backoff, wait_after
from .durations import seconds_of
from .exceptions import QueueError
from .failures import Failure, clean
from .integers import whole_number
from .models import Job, State
from .policies import checked_attempts
from .reading import QueueReader
from .transitions import CompactionResult, settle
from .transitions.enqueue import Terms, checked_key

Seconds = float | timedelta


class Queue(QueueReader):
    """A named queue in the database of the project.

    Options left at None come from NOBROKER, first from its entry for this queue. `using` is a
    database alias, None for the one that the settings or the router name. Durations are
    seconds or timedeltas. Raises QueueError for a bad name or value.
    """

    def __init__(
        self,
        name: str = "default",
        *,
        using: str | None = None,
        visibility_timeout: Seconds | None = None,
        max_attempts: int | None = None,
        backoff: BackoffPolicy | None = None,
    ) -> None:
        self.name = conf.checked_queue_name(name)
        self.using = using
        own: dict[str, Any] = {}
        if visibility_timeout is not None:
            own["visibility_timeout"] = seconds_of(
                visibility_timeout, "visibility_timeout", at_least=0.1
            )
        if max_attempts is not None:
            own["max_attempts"] = checked_attempts(max_attempts)
        if backoff is not None:
            own["backoff"] = checked_backoff(backoff, "backoff")
        self._own = own
        self._in_touch_since: float | None = None

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def options(self) -> conf.QueueOptions:
        """The options in force: this object's own, else those of the settings."""
        options = conf.current().options(self.name)
        return replace(options, **self._own) if self._own else options

    def enqueue(
        self,
        payload: Any,
        *,
        priority: int = 0,
        delay: Seconds = 0.0,
        run_after: datetime | None = None,
        max_attempts: int | None = None,
        job_id: str | None = None,
        subject: str | models.Model | None = None,
    ) -> Job:
        """Write a job in the current transaction: it exists if and when that commits.

        A job with the same `job_id` in this queue, in whatever state, is returned instead, with
        `created` False. Raises SerializationError or QueueError, and has then written nothing.
        """
        terms = self._terms(
            priority=priority,
            delay=delay,
            run_after=run_after,
            max_attempts=max_attempts,
            job_id=checked_key(job_id, "job_id"),
            subject=subject,
        )
        with naming_twin("aenqueue"):
            return transitions.enqueue(self.alias, payload, terms)

    def enqueue_many(
        self,
        payloads: Iterable[Any],
        *,
        priority: int = 0,
        delay: Seconds = 0.0,
        run_after: datetime | None = None,
        max_attempts: int | None = None,
        subject: str | models.Model | None = None,
    ) -> list[Job]:
        """Write one job for each payload, all or none, and return them in the same order."""
        terms = self._terms(
            priority=priority,
            delay=delay,
            run_after=run_after,
            max_attempts=max_attempts,
            subject=subject,
        )
        with naming_twin("aenqueue_many"):
            return transitions.enqueue_many(self.alias, payloads, terms)

    def lease(self, count: int = 1, *, visibility_timeout: Seconds | None = None) -> list[Job]:
        """Lease up to `count` due jobs, highest priority first, for `visibility_timeout` seconds.

        A job whose last lease expired comes alone. Leases that expired are ended first, once this
        object has been in use for a whole visibility timeout. Raises LeaseInTransaction inside
        `atomic()`, a test's own excepted.
        """
        count = whole_number(count, "count", least=1)
        options = self.options
        seconds = options.visibility_timeout
        if visibility_timeout is not None:
            seconds = seconds_of(visibility_timeout, "visibility_timeout", at_least=0.1)
        connection = connections[self.alias]
        transitions.refuse_transaction(connection)
        self._reap(options)
        jobs: list[Job] = []
        for lane in self._lanes(connection):
            if lane.solo and jobs:
                break
            wanted = 1 if lane.solo else count - len(jobs)
            claim = sql.Claim(lane, wanted, _holder(), seconds)
            jobs += transitions.lease(connection.alias, claim)
            if len(jobs) >= count or (jobs and lane.solo):
                break
        return jobs

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
        return self.get(id=job.id)

    def progress(self, job: Job, fraction: float, note: str = "") -> None:
        """Note how far a leased job has come: a fraction from 0 to 1, and a text.

        Raises LeaseLost if it is no longer held.
        """
        if isinstance(fraction, bool) or not isinstance(fraction, int | float):
            raise QueueError(f"fraction must be a number from 0 to 1, not {fraction!r:.80}.")
        if not 0 <= fraction <= 1:
            raise QueueError(f"fraction must be from 0 to 1, not {fraction}.")
        settle.progress(self.alias, self._held(job), float(fraction), clean(str(note), 200))

    def requeue_dead(self, job_id: str | None = None, *, id: int | None = None) -> int:
        """Make dead jobs ready again with all their attempts: one, or all; return how many."""
        jobs = self.jobs if job_id is None and id is None else self._selected(job_id, id)
        return transitions.requeue(jobs.filter(state=State.DEAD))

    def cancel(self, job_id: str | None = None, *, id: int | None = None) -> bool:
        """Cancel a job that is ready or leased; return whether it was one.

        An async handler that runs is cancelled at the next renewal of its lease.
        """
        return bool(transitions.cancel(self._selected(job_id, id)))

    def purge(self) -> int:
        """Delete all jobs of this queue, leased ones too; return how many."""
        return transitions.delete(self.jobs)

    def compact(self) -> CompactionResult:
        """Delete the done and cancelled jobs now and give their space back to the database.

        Inside a transaction the space is left to the database's own cleaning.
        """
        return transitions.compact(self.alias, self.jobs)

    def close(self) -> None:
        """Close this thread's connection to the database, unless it is in a transaction."""
        connection = connections[self.alias]
        if not connection.in_atomic_block:
            connection.close()

    aenqueue = sync_to_async(enqueue)
    aenqueue_many = sync_to_async(enqueue_many)

    def _terms(self, *, max_attempts: int | None, **given: Any) -> Terms:
        attempts = self.options.max_attempts if max_attempts is None else max_attempts
        return Terms(queue=self.name, max_attempts=attempts, **given)

    def _lanes(self, connection: Any) -> list[sql.Lane]:
        lanes = sql.dialect(connection).lanes(connection, [self.name])
        due = [lane for lane in lanes if lane.due_in <= 0]
        return sorted(due, key=lambda lane: (-lane.priority, lane.due_in))

    def _reap(self, options: conf.QueueOptions) -> None:
        now = time.monotonic()
        if self._in_touch_since is None:
            self._in_touch_since = now
        elif now - self._in_touch_since >= options.visibility_timeout:
            transitions.reap(
                self.alias,
                lambda name: options,
                in_touch=now - self._in_touch_since,
                queues=[self.name],
            )

    def _held(self, job: Job) -> Job:
        if job.queue != self.name:
            raise QueueError(f"{job} does not belong to queue {self.name}.")
        if job.state != State.LEASED:
            # Read, not leased: it has the fence of whoever holds the job.
            raise settle.lease_lost(self.alias, job)
        return job


@contextmanager
def naming_twin(name: str) -> Iterator[None]:
    """Name the async twin of a method that is called where an event loop runs."""
    try:
        yield
    except SynchronousOnlyOperation as error:
        raise SynchronousOnlyOperation(
            f"This would block the event loop; await Queue.{name}() instead."
        ) from error


def _holder() -> str:
    """Return who leases by hand: this process, by host and number."""
    return f"{clean(socket.gethostname(), 120)}:{os.getpid()}"
