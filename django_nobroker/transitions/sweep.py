"""What happens to jobs by the passing of time: reap (leased -> ready or dead) and prune (deleted).

Both go in small batches, and one bad row never stops the rest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from django.db import DatabaseError, connections, transaction
from django.db.models import Q

from .. import sql
from ..backoff import wait_after
from ..clock import Ahead
from ..conf import QueueOptions
from ..failures import Failure
from ..logs import about
from ..models import Job, State
from . import settle

logger = logging.getLogger("django_nobroker")

REAP_BATCH = 200
# The part of a visibility timeout that ending leases may take. A worker that is in touch has more
# than this left of every lease it holds.
PATIENCE = 0.25
_REAPED = (
    "id",
    "queue",
    "task",
    "job_id",
    "fence",
    "attempts",
    "max_attempts",
    "leased_by",
    "leased_at",
)


class HeldUp(Exception):
    """Ending leases took so long that those who hold them may have had no chance to renew."""


def reap(
    alias: str,
    options: Callable[[str], QueueOptions],
    *,
    in_touch: float,
    queues: Sequence[str] | None = None,
    ids: Sequence[int] | None = None,
    asked: float | None = None,
) -> int:
    """End the leases whose deadline has passed, up to 200; return how many were ended.

    `queues` are those to look into, for a caller who knows which have any; None finds out. Only
    queues whose visibility timeout is at most `in_touch` seconds are looked into: the time for
    which the caller has itself been in touch with the database. After an outage every lease
    has expired, and the live workers must be given the time to renew theirs. `ids` narrows it
    down to some jobs.

    Raises HeldUp, and has then changed nothing, if it had to wait for a lock: others may have
    waited as long to renew what they hold. `asked` is when the caller began, by the monotonic
    clock, if that was before this call.
    """
    if queues is None:
        # A look first: without it an idle worker would take the write lock of SQLite.
        queues = queues_with_expired(alias, None)
    eligible = [name for name in queues if options(name).visibility_timeout <= in_touch]
    if not eligible:
        return 0
    began = time.monotonic() if asked is None else asked
    shortest = min(options(name).visibility_timeout for name in eligible)
    with transaction.atomic(using=alias):
        reaped = _reap(alias, list(_expired(alias, eligible, ids)), options)
        waited = time.monotonic() - began
        if waited > shortest * PATIENCE:
            raise HeldUp(f"It took {waited:.1f} s to end leases of {shortest:.1f} s.")
        return reaped


def _reap(alias: str, rows: Sequence[Job], options: Callable[[str], QueueOptions]) -> int:
    """End these leases together or, if one of the rows is refused, one by one."""
    try:
        with transaction.atomic(using=alias):
            return len(settle.apply(alias, [_expiry(job, options) for job in rows]))
    except DatabaseError as error:
        connection = connections[alias]
        if connection.closed_in_transaction or sql.dialect(connection).is_conflict(error):
            # Not the fault of a row: the caller repeats it all.
            raise
    return sum(_reap_alone(alias, job, options) for job in rows)


def queues_with_expired(alias: str, queues: Sequence[str] | None) -> list[str]:
    """Return the queues, of these or of all, that have leases whose deadline has passed."""
    expired = Job.objects.using(alias).expired()
    if queues is not None:
        expired = expired.filter(queue__in=queues)
    return list(expired.order_by().values_list("queue", flat=True).distinct())


def expired_leases(alias: str, queue: str) -> set[tuple[int, int, datetime | None]]:
    """Return id, fence and deadline of leases of a queue that have expired, at most a batch."""
    expired = Job.objects.using(alias).expired().filter(queue=queue).order_by("lease_expires_at")
    return set(expired.values_list("id", "fence", "lease_expires_at")[:REAP_BATCH])


def _expired(alias: str, queues: Sequence[str], ids: Sequence[int] | None) -> Iterable[Job]:
    expired = Job.objects.using(alias).expired().filter(queue__in=queues)
    if ids is not None:
        expired = expired.filter(pk__in=ids)
    features = connections[alias].features
    return (
        expired.order_by("lease_expires_at")
        .only(*_REAPED)
        .select_for_update(skip_locked=features.has_select_for_update_skip_locked)[:REAP_BATCH]
    )


def _expiry(job: Job, options: Callable[[str], QueueOptions]) -> settle.Verdict:
    failure = Failure(
        error_class="django_nobroker.exceptions.LeaseLost",
        message=f"LeaseLost: lease expired, held by {job.leased_by or 'nobody known'}",
    )
    logger.warning(
        "%s: lease expired, held by %s; attempt %s of %s is over.",
        job,
        job.leased_by,
        job.attempts,
        job.max_attempts,
        extra=about(job),
    )
    delay = wait_after(options(job.queue).backoff, job.attempts)
    return settle.nacked(job, failure, delay, losses=1)


def _reap_alone(alias: str, job: Job, options: Callable[[str], QueueOptions]) -> int:
    try:
        with transaction.atomic(using=alias):
            return len(settle.apply(alias, [_expiry(job, options)]))
    except DatabaseError as error:
        # Not the text of the error, in which some databases show the whole row.
        logger.error(
            "%s cannot be reaped: %s; the others go on. Look at its row.",
            job,
            type(error).__name__,
            extra=about(job),
        )
        return 0


def prune(
    alias: str, default: QueueOptions, queues: dict[str, QueueOptions], *, limit: int = 500
) -> int:
    """Delete up to `limit` jobs that have been kept for their time; return how many."""
    outlived = Job.objects.using(alias).filter(_outlived(default, queues)).order_by()
    # A look first: it takes no write lock on SQLite.
    ids = list(outlived.values_list("pk", flat=True)[:limit])
    if not ids:
        return 0
    dialect = sql.dialect(connections[alias])
    return dialect.change_held(
        outlived, ids, lambda held: dialect.forget(outlived, held), skip_locked=True
    )


def _outlived(default: QueueOptions, queues: dict[str, QueueOptions]) -> Q:
    """Return the condition that a settled job is past its time in its queue."""
    own = {
        name: options
        for name, options in queues.items()
        if (options.keep_done, options.keep_dead) != (default.keep_done, default.keep_dead)
    }
    condition = _past(default) & ~Q(queue__in=list(own)) if own else _past(default)
    for name, options in own.items():
        condition |= Q(queue=name) & _past(options)
    return condition


def _past(options: QueueOptions) -> Q:
    """Return the condition for one set of options; None keeps for ever."""
    condition = Q(pk__in=[])
    if options.keep_done is not None:
        condition |= Q(
            state__in=[State.DONE, State.CANCELLED], finished_at__lt=Ahead(-options.keep_done)
        )
    if options.keep_dead is not None:
        condition |= Q(state=State.DEAD, finished_at__lt=Ahead(-options.keep_dead))
    return condition
