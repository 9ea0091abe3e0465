"""What ends or renews a lease: ack, nack, reject, release, snooze, extend, progress.

Each is fenced: it changes a job only while the fence is the one that the holder was given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connections, transaction

from .. import sql
from ..exceptions import LeaseLost
from ..failures import Failure
from ..models import FENCE_LIMIT, Attempt, Job, State
from ..sql import Move
from .moves import ACK, BURY, EXTEND, POSTPONE, PROGRESS, RELEASE, RENEW, RETRY, SNOOZE
from .repeats import repeated

# Attempts to one INSERT: with their tracebacks they are large, and MySQL bounds a statement.
ATTEMPTS = 50


# Not frozen: one is made for each job, and that would take three times as long.
@dataclass(slots=True)
class Verdict:
    """What is to become of one leased job."""

    job: Job
    move: Move
    failure: Failure | None = None
    values: dict[str, Any] = field(default_factory=dict)
    # Deleted instead of kept as done.
    forget: bool = False

    @property
    def row(self) -> dict[str, Any]:
        """The values that the move asks for."""
        row = {"id": self.job.id, "fence": self.job.lease_fence, **self.values}
        if self.failure is not None:
            row["error_class"] = self.failure.error_class
            row["last_error"] = self.failure.message
        return row


def acked(job: Job, result: str | None = None, *, forget: bool = False) -> Verdict:
    """Leased -> done; `forget` deletes the row instead."""
    return Verdict(job, ACK, values={"result": result}, forget=forget)


def nacked(job: Job, failure: Failure, delay: float, *, losses: int = 0) -> Verdict:
    """Leased -> ready after `delay` seconds, or dead when its attempts are used up."""
    if job.attempts >= job.max_attempts:
        return rejected(job, failure, losses=losses)
    return Verdict(job, RETRY, failure, {"delay": max(delay, 0.0), "losses": losses})


def rejected(job: Job, failure: Failure, *, losses: int = 0) -> Verdict:
    """Leased -> dead, whatever attempts are left."""
    return Verdict(job, BURY, failure, {"losses": losses})


def released(job: Job) -> Verdict:
    """Leased -> ready, the attempt given back."""
    return Verdict(job, RELEASE)


def snoozed(job: Job, seconds: float) -> Verdict:
    """Leased -> ready after `seconds`, the attempt given back."""
    return Verdict(job, SNOOZE, values={"delay": seconds})


def postponed(job: Job, failure: Failure, delay: float) -> Verdict:
    """Leased -> ready after `delay` seconds, the attempt given back: its task is not known here."""
    return Verdict(job, POSTPONE, failure, {"delay": delay})


def apply(alias: str, verdicts: Iterable[Verdict]) -> set[int]:
    """Apply the verdicts in one transaction; return the ids of the jobs that they changed.

    A job that is missing from the answer was no longer held: nothing of it was written.
    """
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.move.name].append(verdict)
    if list(groups) == [ACK.name] and not any(verdict.forget for verdict in groups[ACK.name]):
        return _move(alias, ACK, groups[ACK.name])
    settled: set[int] = set()
    with transaction.atomic(using=alias):
        if len(groups) > 1:
            # In the order of the ids, as everybody does: one move alone does so itself.
            ids = [verdict.job.id for group in groups.values() for verdict in group]
            sql.dialect(connections[alias]).lock_jobs(connections[alias], ids)
        for name in sorted(groups):
            settled |= _apply(alias, groups[name])
    return settled


def apply_one(alias: str, verdict: Verdict) -> None:
    """Apply one verdict, in the caller's transaction if there is one.

    Raises LeaseLost if the job is no longer held, and marks the caller's block for rollback.
    """
    if verdict.job.id not in repeated(alias, lambda: apply(alias, [verdict])):
        raise lease_lost(alias, verdict.job)


def extend(alias: str, jobs: Sequence[tuple[Job, float]], *, wait: bool = True) -> set[int]:
    """Move the deadlines of held jobs to so many seconds from now; return the ids of those held.

    With `wait` off, rows locked by another transaction are left out, though they may be held.
    """
    rows = [{"id": job.id, "fence": job.lease_fence, "seconds": seconds} for job, seconds in jobs]
    connection = connections[alias]
    return sql.dialect(connection).move(connection, EXTEND if wait else RENEW, rows)


def lock(alias: str, job: Job) -> bool:
    """Lock the row of a held job in this transaction; return whether it is still held."""
    rows = Job.objects.using(alias).filter(pk=job.id, fence=job.lease_fence)
    return bool(list(rows.select_for_update().values_list("pk", flat=True)))


def fence_of(alias: str, job: Job) -> int | None:
    """Return the fence of a job now, or None if its row is gone."""
    return Job.objects.using(alias).filter(pk=job.id).values_list("fence", flat=True).first()


def was_done(alias: str, job: Job) -> bool:
    """Return whether a job was done by the holder who is asking: whose commit had no answer."""
    rows = Job.objects.using(alias).filter(pk=job.id, state=State.DONE)
    after = (job.lease_fence + 1) % FENCE_LIMIT
    return rows.filter(fence=after, leased_by=job.leased_by).exists()


def still_held(alias: str, jobs: Sequence[Job]) -> set[int]:
    """Return the ids of the jobs whose fence is unchanged, without waiting for any lock."""
    fences = {job.id: job.lease_fence for job in jobs}
    found = Job.objects.using(alias).filter(pk__in=fences).values_list("pk", "fence")
    return {pk for pk, fence in found if fences[pk] == fence}


def progress(alias: str, job: Job, fraction: float, note: str = "") -> None:
    """Note how far a leased job has come; raises LeaseLost if it is no longer held."""
    connection = connections[alias]
    row = {"id": job.id, "fence": job.lease_fence, "progress": fraction, "note": note}
    if not sql.dialect(connection).move(connection, PROGRESS, [row]):
        raise lease_lost(alias, job)


def lease_lost(alias: str, job: Job) -> LeaseLost:
    """Mark the caller's transaction for rollback; return the error to raise."""
    connection: Any = connections[alias]
    if connection.in_atomic_block and not connection.atomic_blocks[-1]._from_testcase:
        transaction.set_rollback(True, using=alias)
    return LeaseLost(
        f"The lease of {job} with fence {job.lease_fence} has ended: the job was settled, "
        "cancelled, or given to another worker after its deadline. Nothing was changed; raise "
        "VISIBILITY_TIMEOUT or extend the lease if handlers run longer."
    )


def _apply(alias: str, verdicts: list[Verdict]) -> set[int]:
    moved = _move(alias, verdicts[0].move, verdicts)
    failed = [verdict for verdict in verdicts if verdict.failure and verdict.job.id in moved]
    # One that is postponed has not been tried.
    if failed and verdicts[0].move is not POSTPONE:
        Attempt.objects.using(alias).bulk_create(map(_attempt, failed), batch_size=ATTEMPTS)
    forgotten = [v.job.id for v in verdicts if v.forget and v.job.id in moved]
    if forgotten:
        sql.dialect(connections[alias]).forget(Job.objects.using(alias), forgotten)
    return moved


def _move(alias: str, move: Move, verdicts: list[Verdict]) -> set[int]:
    connection = connections[alias]
    return sql.dialect(connection).move(connection, move, [verdict.row for verdict in verdicts])


def _attempt(verdict: Verdict) -> Attempt:
    job, failure = verdict.job, verdict.failure or Failure()
    return Attempt(
        job_id=job.id,
        fence=job.lease_fence,
        number=job.attempts,
        worker=job.leased_by,
        started_at=job.leased_at,
        error_class=failure.error_class,
        message=failure.message,
        traceback=failure.traceback,
    )
