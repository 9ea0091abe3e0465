"""Every statement of the queue for any database that Django knows: plain ORM, one row at a time.

What must hold, here and in the dialects that override it: a job is changed only if it still
is what the caller saw (its state, or its fence), and the answer says which jobs were changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db import Error, IntegrityError, transaction
from django.db.models import Expression, Min, Value
from django.db.models.functions import Greatest

from ..clock import Ahead, Now
from ..fields import UTCDateTimeField
from ..models import Job, JobQuerySet, State
from .chosen import ChosenRows
from .moves import Move, Row
from .rows import LEASED


@dataclass(frozen=True, slots=True)
class Lane:
    """The ready jobs of one queue, priority and number of lost leases, in order of their time."""

    queue: str
    priority: int
    lease_losses: int
    # Seconds until the first of them is due; not above zero when one is due now.
    due_in: float = field(default=0.0, compare=False)
    # What tells the first of them from any other: its id, or its time.
    head: object = field(default=None, compare=False)

    @property
    def solo(self) -> bool:
        """Whether its jobs are leased alone, since a worker vanished with each of them."""
        return self.lease_losses > 0


@dataclass(frozen=True, slots=True)
class Claim:
    """What a lease asks for: from which lane, how many, by whom and for how long."""

    lane: Lane
    count: int
    worker: str
    seconds: float
    # False leaves out jobs of that kind: this worker could not run them.
    payloads: bool = True
    tasks: bool = True

    @property
    def given(self) -> dict[str, Any]:
        """The values that the move of a lease asks for."""
        return {"worker": self.worker, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class NewJobs:
    """Jobs to insert, alike in all but their payloads."""

    payloads: Sequence[str]
    columns: dict[str, Any]
    # At most one of the two: seconds from now, or an instant.
    delay: float = 0.0
    run_after: datetime | None = None

    @property
    def available_at(self) -> Any:
        """The expression for the time they are due, or None for the column's default."""
        if self.run_after is not None:
            asked = Value(self.run_after, output_field=UTCDateTimeField())
            return Greatest(asked, Now(), output_field=UTCDateTimeField())
        return Ahead(self.delay) if self.delay > 0 else None


class Problem(NamedTuple):
    """A setting of the server that voids a promise: the id of its check, and what to do."""

    id: str
    message: str
    hint: str


class Dialect(ChosenRows):
    """The plain ORM path. Untested on databases other than the three that override it."""

    # Shown in messages and by the worker's first line.
    name = "plain ORM"
    # Whether one write at a time is all that the database does.
    has_single_writer = False
    # Whether sessions can be told of new jobs, and whether a change of the file can be seen.
    has_notices = False
    has_data_version = False
    # Seconds between two looks of a worker that has had work lately, where nothing wakes it.
    lively_interval: float | None = None
    # Whether SET LOCAL and SET TRANSACTION hold for the transaction they are in, and no longer.
    has_local_settings = False

    def insert(self, connection: Any, new: NewJobs) -> list[Job]:
        """Insert the jobs; return them in the order of their payloads."""
        with transaction.atomic(using=connection.alias, savepoint=False):
            return [self._insert_one(connection, new, text) for text in new.payloads]

    def insert_keyed(self, connection: Any, new: NewJobs) -> Job | None:
        """Insert one job with a key; return None if its queue has one with that key."""
        try:
            with transaction.atomic(using=connection.alias):
                return self._insert_one(connection, new, new.payloads[0])
        except IntegrityError:
            if not self.is_taken(connection, new):
                raise
            return None

    def is_taken(self, connection: Any, new: NewJobs) -> bool:
        """Return whether there is a job to be seen with the key of a new one."""
        jobs = Job.objects.using(connection.alias)
        return jobs.with_key(new.columns["queue"], new.columns["job_id"]).exists()

    def lanes(self, connection: Any, queues: Sequence[str] | None = None) -> list[Lane]:
        """Return the lanes that have ready jobs, of these queues or of all."""
        ready = Job.objects.using(connection.alias).filter(state=State.READY)
        if queues is not None:
            ready = ready.filter(queue__in=queues)
        found = ready.values_list("queue", "priority", "lease_losses").annotate(
            first=Min("available_at"), now=Now()
        )
        return [
            Lane(queue, priority, losses, (first - now).total_seconds(), first)
            for queue, priority, losses, first, now in found.order_by()
        ]

    def lease(self, connection: Any, claim: Claim, move: Move) -> list[Job]:
        """Lease due jobs of one lane, in their order, by making `move` with them."""
        sets = move.for_row(claim.given)
        candidates = list(self.due(connection, claim).values_list("pk", "fence")[: claim.count])
        jobs = Job.objects.using(connection.alias)
        taken = [
            pk
            for pk, fence in candidates
            if jobs.filter(pk=pk, fence=fence, state=State.READY).update(**sets)
        ]
        return self.in_order(jobs.filter(pk__in=taken).only(*LEASED)) if taken else []

    def due(self, connection: Any, claim: Claim) -> JobQuerySet:
        """Return the due jobs of a lane in its order."""
        lane = claim.lane
        due = (
            Job.objects.using(connection.alias)
            .due()
            .filter(queue=lane.queue, priority=lane.priority, lease_losses=lane.lease_losses)
        )
        if not claim.payloads:
            due = due.exclude(task="")
        if not claim.tasks:
            due = due.filter(task="")
        return due.order_by("available_at", "id")

    def in_order(self, jobs: Any) -> list[Job]:
        """Return leased jobs in the order of their lane."""
        return sorted(jobs, key=lambda job: (job.available_at, job.id))

    def move(self, connection: Any, move: Move, rows: Sequence[Row]) -> set[int]:
        """Change the jobs that still have the fence given; return the ids of those changed."""
        jobs = Job.objects.using(connection.alias)
        return {
            row["id"]
            for row in sorted(rows, key=lambda row: row["id"])
            if jobs.filter(pk=row["id"], fence=row["fence"]).update(**move.for_row(row))
        }

    def is_conflict(self, error: Error) -> bool:
        """Return whether the statement lost against another transaction, and may be repeated."""
        return False

    def is_rollback(self, error: Error) -> bool:
        """Return whether the database gave up the whole transaction in favour of another one."""
        return self.is_conflict(error)

    def has_one_snapshot(self, connection: Any) -> bool:
        """Return whether a transaction of this session sees only what its first statement saw."""
        return False

    def refuse_large(self, connection: Any, text: str, what: str) -> None:
        """Raise SerializationError for a text that no statement could carry."""

    def is_newer_row(self, error: Error) -> bool:
        """Return whether a statement met a row that is newer than the transaction's snapshot."""
        return False

    def session_is_idle(self, connection: Any) -> bool:
        """Return whether the driver's session is outside any transaction, as far as it tells."""
        return True

    def session_is_sound(self, connection: Any) -> bool:
        """Return whether the driver's session takes statements, as far as it tells."""
        return True

    def notify(self, connection: Any, queues: Sequence[str]) -> None:
        """Tell all sessions that listen of these queues, at once."""

    def listen(self, connection: Any) -> Any:
        """Return a session of its own that listens; its `wait(seconds)` returns what was told."""
        raise NotImplementedError

    def data_version(self, connection: Any) -> int:
        """Return a number that changes when another connection has committed."""
        raise NotImplementedError

    def can_listen(self, connection: Any) -> bool:
        """Return whether the driver lets a session listen."""
        return False

    def is_private(self, connection: Any) -> bool:
        """Return whether the database is in memory, so that other threads cannot work on it."""
        return False

    def tune(self, schema_editor: Any) -> None:
        """Set the storage of the job table for many short-lived rows, where there is a choice."""

    def server_problems(self, connection: Any) -> list[Problem]:
        """Return what is wrong with the settings of the server and of this connection."""
        return []

    def table_bytes(self, connection: Any) -> int | None:
        """Return the size of the job table with its indexes, where the database tells."""
        return None

    def reclaim(self, connection: Any) -> None:
        """Give the space of deleted rows back, as far as that needs no long lock."""

    def _insert_one(self, connection: Any, new: NewJobs, text: str) -> Job:
        job = Job(payload_text=text, **new.columns)
        if new.available_at is not None:
            job.available_at = new.available_at
        job.save(using=connection.alias, force_insert=True)
        for name, value in list(job.__dict__.items()):
            if isinstance(value, Expression):
                # The database chose the value: load it when it is asked for.
                del job.__dict__[name]
        return job
