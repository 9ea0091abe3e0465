"""The tables. What may change a job, and when, is in `transitions`; nothing here writes."""

from .job import (
    COUNT_LIMIT,
    FENCE_LIMIT,
    KEY_LENGTH,
    QUEUE_LENGTH,
    SNOOZE_LIMIT,
    Job,
    JobQuerySet,
    State,
    fence_after,
)
from .records import FORMAT_VERSION, Attempt, Format, Minute, QueueControl, WorkerProcess

__all__ = [
    "COUNT_LIMIT",
    "FENCE_LIMIT",
    "FORMAT_VERSION",
    "KEY_LENGTH",
    "QUEUE_LENGTH",
    "SNOOZE_LIMIT",
    "Attempt",
    "Format",
    "Job",
    "JobQuerySet",
    "Minute",
    "QueueControl",
    "State",
    "WorkerProcess",
    "fence_after",
]
