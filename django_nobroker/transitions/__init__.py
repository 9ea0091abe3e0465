"""Every write to a job, each named for what happens to it. Nothing else writes one.

A job moves ready -> leased -> done, dead or ready again; a person may cancel, requeue, edit or
delete it. Each write finds its row by what it must still be, so of two that meet one wins and
the other changes nothing.
"""

from . import settle
from .enqueue import enqueue, enqueue_many, load_times
from .lease import lease, refuse_transaction
from .notices import EVERY_QUEUE, announce
from .operate import (
    CompactionResult,
    cancel,
    compact,
    delete,
    edit,
    pause,
    requeue,
    resume,
)
from .sweep import REAP_BATCH, HeldUp, expired_leases, prune, queues_with_expired, reap

__all__ = [
    "EVERY_QUEUE",
    "REAP_BATCH",
    "CompactionResult",
    "HeldUp",
    "announce",
    "cancel",
    "compact",
    "delete",
    "edit",
    "enqueue",
    "enqueue_many",
    "expired_leases",
    "lease",
    "load_times",
    "pause",
    "prune",
    "queues_with_expired",
    "reap",
    "refuse_transaction",
    "requeue",
    "resume",
    "settle",
]
