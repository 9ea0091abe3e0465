"""Durable background jobs in the database that a Django project already has.

Names are imported when they are first used, so that settings may import this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backoff import BackoffPolicy
    from .exceptions import (
        JobNotFound,
        LeaseLost,
        NobrokerError,
        QueueError,
        SerializationError,
    )
    from .models import Job
    from .outcomes import Reject, Retry, Snooze
    from .policies import policy
    from .queue import Queue
    from .stats import QueueStats
    from .transitions import CompactionResult
    from .worker import Worker, WorkerStats

__version__ = "0.1.0"

_HOMES = {
    "BackoffPolicy": "backoff",
    "CompactionResult": "transitions",
    "Job": "models",
    "JobNotFound": "exceptions",
    "LeaseLost": "exceptions",
    "NobrokerError": "exceptions",
    "Queue": "queue",
    "QueueError": "exceptions",
    "QueueStats": "stats",
    "Reject": "outcomes",
    "Retry": "outcomes",
    "SerializationError": "exceptions",
    "Snooze": "outcomes",
    "Worker": "worker",
    "WorkerStats": "worker",
    "policy": "policies",
}

__all__ = [
    "BackoffPolicy",
    "CompactionResult",
    "Job",
    "JobNotFound",
    "LeaseLost",
    "NobrokerError",
    "Queue",
    "QueueError",
    "QueueStats",
    "Reject",
    "Retry",
    "SerializationError",
    "Snooze",
    "Worker",
    "WorkerStats",
    "policy",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value
