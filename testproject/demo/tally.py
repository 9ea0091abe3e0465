"""The demonstration's figures. All are counted in the database, none is remembered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from django_nobroker.models import Job

OPEN = Q(state__in=["ready", "leased"])
DONE = Q(state="done")
DEAD = Q(state="dead")


@dataclass(frozen=True, slots=True)
class Tally:
    """One queue at one moment, counted in jobs."""

    queue: str
    jobs: int
    open: int
    done: int
    dead: int
    retried: int


def count() -> dict[str, Tally]:
    """Return the figures of every queue that has a job."""
    rows = (
        Job.objects.values("queue")
        .annotate(
            jobs=Count("id"),
            open=Count("id", filter=OPEN),
            done=Count("id", filter=DONE),
            dead=Count("id", filter=DEAD),
            retried=Count("id", filter=Q(attempts__gt=1)),
        )
        .order_by("queue")
    )
    return {row["queue"]: Tally(**row) for row in rows}


def table(before: dict[str, Tally], requeued: dict[str, int], after: dict[str, Tally]) -> list[str]:
    """Return the table's lines: each queue before and after the requeue, and all of them."""
    head = ["queue", "enqueued", "done", "retried", "dead", "requeued", "done"]
    rows = [
        [tally.jobs, tally.done, tally.retried, tally.dead, requeued.get(name, 0), after[name].done]
        for name, tally in before.items()
    ]
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    names = [*before, "all"]
    cells = [head, *([name, *map(str, row)] for name, row in zip(names, rows, strict=True))]
    lines = _aligned(cells)
    rule = "-" * len(lines[0])
    return [lines[0], rule, *lines[1:-1], rule, lines[-1]]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(row, widths) for row in rows]


def _line(row: Sequence[str], widths: Iterable[int]) -> str:
    first, *others = widths
    numbers = (f"{cell:>{width}}" for cell, width in zip(row[1:], others, strict=True))
    return "   ".join([f"{row[0]:<{first}}", *numbers])
