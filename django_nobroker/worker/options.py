"""What a worker is told: validated once, so that its parts need not ask again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .. import conf
from ..durations import seconds_of
from ..exceptions import QueueError
from ..integers import whole_number

MOST_CONCURRENT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The limits and the manners of one worker. Durations are seconds; None is no limit."""

    # The queues to serve in strict order, or None for all of them in turn.
    queues: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    concurrency: int = 1
    poll_interval: float = 0.1
    max_jobs: int | None = None
    max_time: float | None = None
    # Mebibytes of resident memory.
    max_memory: float | None = None
    idle_timeout: float | None = None
    shutdown_timeout: float | None = None
    # Stop when nothing is due now.
    burst: bool = False
    handle_signals: bool = True
    name: str = ""

    def serves(self, queue: str) -> bool:
        """Return whether a queue is among those to serve."""
        return queue not in self.exclude and (self.queues is None or queue in self.queues)

    @classmethod
    def checked(
        cls, *, queues: Sequence[str] | None = None, exclude: Sequence[str] = (), **given: Any
    ) -> WorkerOptions:
        """Return the options; raises QueueError for what cannot be."""
        names = None if queues is None else tuple(map(conf.checked_queue_name, queues))
        if names == ():
            raise QueueError("A worker needs at least one queue to serve, or '*' for all.")
        return cls(
            queues=names,
            exclude=tuple(map(conf.checked_queue_name, exclude)),
            concurrency=whole_number(
                given.pop("concurrency", 1), "concurrency", least=1, most=MOST_CONCURRENT
            ),
            poll_interval=seconds_of(
                given.pop("poll_interval", 0.1), "poll_interval", at_least=0.001
            ),
            max_jobs=_count_or_none(given.pop("max_jobs", None), "max_jobs"),
            max_time=_seconds_or_none(given.pop("max_time", None), "max_time"),
            max_memory=_seconds_or_none(given.pop("max_memory", None), "max_memory"),
            idle_timeout=_seconds_or_none(given.pop("idle_timeout", None), "idle_timeout"),
            shutdown_timeout=_seconds_or_none(
                given.pop("shutdown_timeout", None), "shutdown_timeout"
            ),
            **given,
        )


def _count_or_none(value: Any, name: str) -> int | None:
    return None if value is None else whole_number(value, name, least=1)


def _seconds_or_none(value: float | timedelta | None, name: str) -> float | None:
    return None if value is None else seconds_of(value, name, at_least=0.0)
