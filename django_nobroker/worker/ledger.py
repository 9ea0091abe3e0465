"""What a worker has done: its own totals, and the minutes that it adds to the queue's."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import Error, IntegrityError, transaction
from django.db.models import F

from ..clock import Ahead
from ..models import Minute
from ..transitions import moves, settle
from .holdings import Held

GIVEN_BACK = (moves.RELEASE, moves.POSTPONE)
# Seconds for which the minutes of a queue are kept.
KEEP_MINUTES = 7 * 86400


class WorkerStats(NamedTuple):
    """What one run of a worker did.

    `failed` counts attempts, `dead` the jobs that ended in the dead-letter queue, `lost_leases`
    the jobs whose outcome changed nothing, since the worker no longer held them.
    """

    leased: int
    succeeded: int
    failed: int
    dead: int
    lost_leases: int


class Ledger:
    """Counts, and forgets no minute until it is written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = dict.fromkeys(WorkerStats._fields, 0)
        self._given_back = 0
        self._minutes: dict[tuple[str, datetime], dict[str, float]] = {}

    def leased(self, count: int) -> None:
        """Take note of leased jobs."""
        with self._lock:
            self._totals["leased"] += count

    def count(self, held: Held, outcome: settle.Verdict, seconds: float, *, took: bool) -> None:
        """Take note of a job that was settled, or that was no longer held."""
        with self._lock:
            if not took:
                self._totals["lost_leases"] += 1
                return
            if outcome.move in GIVEN_BACK:
                self._given_back += 1
            tally = self._tally(held, seconds)
            if outcome.move is moves.ACK:
                self._totals["succeeded"] += 1
                tally["done"] += 1
            elif outcome.move in (moves.RETRY, moves.BURY):
                self._totals["failed"] += 1
                tally["failed"] += 1
                if outcome.move is moves.BURY:
                    self._totals["dead"] += 1
                    tally["dead"] += 1
            job = held.job
            if job.leased_at is not None:
                waited = (job.leased_at - job.available_at).total_seconds()
                tally["wait_seconds"] += max(0.0, waited)
            tally["run_seconds"] += seconds

    @property
    def taken(self) -> int:
        """How many jobs were leased, those left out that were given back untried."""
        with self._lock:
            return self._totals["leased"] - self._given_back

    @property
    def stats(self) -> WorkerStats:
        """The totals so far."""
        with self._lock:
            return WorkerStats(**self._totals)

    def write(self, alias: str) -> None:
        """Add what is not yet written to the minutes in the database, or keep it for later."""
        with self._lock:
            taken, self._minutes = self._minutes, {}
        try:
            # Each on its own: two workers that hold one row and want another's would deadlock.
            for queue, minute in sorted(taken):
                add_to_minute(alias, queue, minute, taken[queue, minute])
                del taken[queue, minute]
        except Error:
            with self._lock:
                for key, tally in taken.items():
                    kept = self._minutes.setdefault(key, defaultdict(float))
                    for name, amount in tally.items():
                        kept[name] += amount
            raise

    def _tally(self, held: Held, seconds: float) -> dict[str, float]:
        """Return the tally of the minute in which a job ended, by the clock of its database."""
        ended = (held.job.leased_at or datetime.now(UTC)) + timedelta(seconds=seconds)
        minute = ended.replace(second=0, microsecond=0)
        return self._minutes.setdefault((held.job.queue, minute), defaultdict(float))


def forget_minutes(alias: str) -> None:
    """Delete the minutes that are older than a week."""
    old = Minute.objects.using(alias).filter(minute__lt=Ahead(-KEEP_MINUTES))
    # A look first: it takes no write lock on SQLite.
    if old.exists():
        old.delete()


def add_to_minute(alias: str, queue: str, minute: datetime, tally: dict[str, float]) -> None:
    """Add a tally to the row of a queue's minute."""
    mine: Any = Minute.objects.using(alias).filter(queue=queue, minute=minute)
    changes = {name: F(name) + amount for name, amount in tally.items()}
    if mine.update(**changes):
        return
    try:
        with transaction.atomic(using=alias):
            Minute.objects.using(alias).create(queue=queue, minute=minute, **tally)
    except IntegrityError:
        # Another worker was first.
        mine.update(**changes)
