"""Counting what is in the queues, for people and for monitoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Min, Q

from .clock import Now
from .conf import current
from .models import Job, JobQuerySet, QueueControl, State

_COUNTS = {"number": Count("pk"), "later": Count("pk", filter=Q(available_at__gt=Now()))}


class QueueStats(NamedTuple):
    """How many jobs of a queue are in each state; `delayed` ones are ready, but not yet due."""

    ready: int
    delayed: int
    leased: int
    done: int
    dead: int
    cancelled: int
    total: int


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The counts of one queue, since when its first due job waits, and whether it is paused."""

    queue: str
    stats: QueueStats
    waiting_since: datetime | None
    paused: bool


def count(jobs: JobQuerySet) -> QueueStats:
    """Count jobs by their state."""
    by_state = jobs.order_by().values_list("state").annotate(**_COUNTS)
    return _stats({state: (number, later) for state, number, later in by_state})


def report(alias: str) -> list[QueueReport]:
    """Return a report of each queue that has jobs, in the order of their names."""
    jobs = Job.objects.using(alias)
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    rows = jobs.order_by().values_list("queue", "state").annotate(**_COUNTS)
    for queue, state, number, later in rows:
        counts.setdefault(queue, {})[state] = (number, later)
    waiting = dict(jobs.due().order_by().values_list("queue").annotate(since=Min("available_at")))
    paused = set(QueueControl.objects.using(alias).values_list("queue", flat=True))
    return [
        QueueReport(queue, _stats(counts[queue]), waiting.get(queue), queue in paused)
        for queue in sorted(counts)
    ]


def unknown_queues(alias: str, names: Sequence[str]) -> list[str]:
    """Return those of the names that no setting and no job has: perhaps they are misspelt."""
    unknown = [name for name in names if name not in current().queues]
    found = Job.objects.using(alias).filter(queue__in=unknown).order_by()
    known = set(found.values_list("queue", flat=True).distinct()) if unknown else set()
    return [name for name in unknown if name not in known]


def _stats(counts: dict[str, tuple[int, int]]) -> QueueStats:
    ready, delayed = counts.get(State.READY, (0, 0))
    others = {state.value: counts.get(state, (0, 0))[0] for state in State if state != State.READY}
    return QueueStats(
        ready=ready - delayed,
        delayed=delayed,
        total=ready + sum(others.values()),
        **others,
    )
