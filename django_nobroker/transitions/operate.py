"""What a person, or a program on a person's behalf, does to jobs: cancel, requeue, edit, delete.

Batches go in the order of the ids and are small, so that they never lock out the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import FloatField, Value
from django.db.models.functions import Random

from .. import payloads, sql
from ..clock import Ahead, Now
from ..durations import seconds_of
from ..exceptions import QueueError
from ..models import JobQuerySet, QueueControl, State, fence_after
from .enqueue import Terms
from .notices import EVERY_QUEUE, announce
from .repeats import repeated

BATCH = 500
EDITABLE = (State.READY, State.DEAD)


class CompactionResult(NamedTuple):
    """What compacting did: rows deleted, and the bytes of the table, None if it does not tell."""

    removed: int
    bytes_before: int | None
    bytes_after: int | None

    def describe(self) -> str:
        """Return the result as a sentence."""
        jobs = f"{self.removed:,} finished job{'' if self.removed == 1 else 's'} removed"
        if self.bytes_before is None or self.bytes_after is None:
            return f"{jobs}."
        return f"{jobs}; the table went from {self.bytes_before:,} to {self.bytes_after:,} bytes."


def cancel(jobs: JobQuerySet) -> int:
    """ready, leased -> cancelled; return how many. A late ack of one changes nothing."""
    return _in_batches(
        jobs.filter(state__in=[State.READY, State.LEASED]),
        state=State.CANCELLED.value,
        finished_at=Now(),
        lease_expires_at=None,
        fence=fence_after(),
    )


def requeue(jobs: JobQuerySet, *, spread: float = 0.0) -> int:
    """dead, cancelled -> ready with all attempts, spread over so many seconds; return how many."""
    seconds = seconds_of(spread, "spread", at_least=0.0)
    due: Any = Now()
    if seconds:
        due = Ahead(Random() * Value(seconds, output_field=FloatField()))
    requeued = _in_batches(
        jobs.filter(state__in=[State.DEAD, State.CANCELLED]),
        state=State.READY.value,
        attempts=0,
        available_at=due,
        finished_at=None,
        leased_by="",
        leased_at=None,
        unknown_since=None,
        result=None,
        progress=None,
        progress_note="",
    )
    if requeued:
        announce(jobs.db, [EVERY_QUEUE])
    return requeued


def edit(
    jobs: JobQuerySet,
    *,
    payload_text: str | None = None,
    priority: int | None = None,
    available_at: datetime | None = None,
    run_now: bool = False,
) -> int:
    """Change jobs that are ready or dead; return how many. What is None stays as it is.

    Raises SerializationError and QueueError as enqueue does.
    """
    values: dict[str, Any] = {}
    if payload_text is not None:
        values["payload_text"] = payloads.encode(payloads.decode(payload_text))
    if priority is not None or available_at is not None:
        checked = Terms(
            queue="edit", max_attempts=1, priority=priority or 0, run_after=available_at
        ).new([])
        if priority is not None:
            values["priority"] = checked.columns["priority"]
        if available_at is not None:
            values["available_at"] = checked.available_at
    if run_now:
        values["available_at"] = Now()
    if not values:
        raise QueueError("Nothing to edit: give payload_text, priority, available_at or run_now.")
    edited = _in_batches(jobs.filter(state__in=EDITABLE), **values)
    if edited and "available_at" in values:
        announce(jobs.db, [EVERY_QUEUE])
    return edited


def delete(jobs: JobQuerySet, *, states: Sequence[str] | None = None) -> int:
    """Delete jobs in the given states (None: in any) with their attempts; return how many."""
    if states is not None:
        jobs = jobs.filter(state__in=states)
    dialect = sql.dialect(connections[jobs.db])
    return _by_ids(jobs, lambda ids: dialect.forget(jobs, ids))


def compact(alias: str, jobs: JobQuerySet) -> CompactionResult:
    """Delete the done and cancelled jobs now, then give the space back to the database.

    Inside a transaction only the first half is possible.
    """
    connection = connections[alias]
    dialect = sql.dialect(connection)
    before = dialect.table_bytes(connection)
    removed = delete(jobs, states=[State.DONE, State.CANCELLED])
    if not connection.in_atomic_block:
        dialect.reclaim(connection)
    return CompactionResult(removed, before, dialect.table_bytes(connection))


def pause(alias: str, queue: str, *, by: str = "") -> None:
    """Let no worker lease from a queue; it still accepts jobs."""
    QueueControl.objects.using(alias).update_or_create(
        queue=queue, defaults={"paused_by": by}, create_defaults={"paused_by": by}
    )


def resume(alias: str, queue: str) -> bool:
    """Let workers lease again; return whether the queue was paused."""
    resumed = bool(QueueControl.objects.using(alias).filter(queue=queue).delete()[0])
    if resumed:
        announce(alias, [queue])
    return resumed


def _in_batches(jobs: JobQuerySet, **values: Any) -> int:
    dialect = sql.dialect(connections[jobs.db])
    return _by_ids(jobs, lambda ids: dialect.amend(jobs, ids, values))


def _by_ids(jobs: JobQuerySet, change: Callable[[list[int]], int]) -> int:
    """Change jobs by the batch, each in a transaction of its own, repeated after a conflict."""
    dialect = sql.dialect(connections[jobs.db])
    changed = 0
    after = 0
    while ids := _next(jobs, after):
        after = ids[-1]
        changed += repeated(jobs.db, partial(dialect.change_held, jobs, ids, change))
    return changed


def _next(jobs: JobQuerySet, after: int) -> list[int]:
    """Return the next ids in order, so that a row that no longer matches is not seen again."""
    ids = jobs.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:BATCH]
    return list(ids)
