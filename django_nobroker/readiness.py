"""What this release could not run of what is queued: asked before it is deployed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Count, Min

from . import calls, tasks
from .exceptions import NotATask, SerializationError, UnknownTask
from .models import Job, JobQuerySet, State

BATCH = 1000
WAITING = (State.READY, State.LEASED)


@dataclass(slots=True)
class Unrunnable:
    """Jobs of one task in one queue that this release could not run, and why."""

    queue: str
    task: str
    reason: str
    # The lowest of their ids, and how many they are.
    first: int
    count: int


def unrunnable(alias: str) -> Iterator[Unrunnable]:
    """Find the waiting jobs whose task is gone, or whose arguments do not fit it.

    Reads every payload of the tasks that are there, a thousand at a time.
    """
    waiting = Job.objects.using(alias).filter(state__in=WAITING).exclude(task="").order_by()
    groups = waiting.values_list("queue", "task").annotate(Count("pk"), Min("pk"))
    for queue, path, count, first in groups.order_by("queue", "task"):
        try:
            signature = tasks.signature_of(tasks.find(path))
        except (NotATask, UnknownTask) as error:
            yield Unrunnable(queue, path, str(error), first, count)
        else:
            yield from _misfits(waiting.filter(queue=queue, task=path), queue, path, signature)


def _misfits(
    jobs: JobQuerySet, queue: str, path: str, signature: inspect.Signature
) -> Iterator[Unrunnable]:
    """Return those of a task's jobs that cannot be called, gathered by the reason."""
    found: dict[str, Unrunnable] = {}
    after = 0
    while batch := list(_next(jobs, after)):
        after = batch[-1][0]
        for pk, text in batch:
            reason = _misfit(pk, text, signature)
            if reason is not None:
                known = found.setdefault(reason, Unrunnable(queue, path, reason, pk, 0))
                known.count += 1
    yield from found.values()


def _next(jobs: JobQuerySet, after: int) -> Iterator[tuple[int, str]]:
    rows = jobs.filter(pk__gt=after).order_by("pk").values_list("pk", "payload_text")
    yield from rows[:BATCH]


def _misfit(pk: int, text: str, signature: inspect.Signature) -> str | None:
    try:
        call = calls.read(text, lambda: "the payload")
        signature.bind(*call.args, **call.kwargs)
    except (SerializationError, TypeError) as error:
        return str(error)
    return None
