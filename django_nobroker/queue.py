"""Queue: a name, its options, and the transitions as methods.

It holds no connection and no state but the expired leases it has seen, so it may be made where
it is used and shared between threads. One that leases by hand, with no worker beside it, must
live longer than a visibility timeout: it ends a lease that it has seen expired so long ago.

Its base classes read (`reading`) and hold (`leasing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, models

from . import conf, transitions
from .backoff import BackoffPolicy, checked_backoff
from .durations import seconds_of
from .leasing import QueueHolder, Seconds
from .models import Job, State
from .policies import checked_attempts
from .transitions import CompactionResult
from .transitions.enqueue import Terms, checked_key


class Queue(QueueHolder):
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
        self._expired = {}

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

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


@contextmanager
def naming_twin(name: str) -> Iterator[None]:
    """Name the async twin of a method that is called where an event loop runs."""
    try:
        yield
    except SynchronousOnlyOperation as error:
        raise SynchronousOnlyOperation(
            f"This would block the event loop; await Queue.{name}() instead."
        ) from error
