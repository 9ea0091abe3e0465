"""When a worker is to stop by itself: by number, time, memory, or for want of work."""

from __future__ import annotations

import resource
import sys
import time

from django.db.models import Q

from ..clock import Now
from ..models import Job, State
from .claimer import Claimer
from .options import WorkerOptions

MEBIBYTE = 1024 * 1024
# Seconds between two looks at the memory.
MEMORY_EVERY = 1.0


class Limits:
    """Asked after every turn of the worker's loop."""

    def __init__(self, alias: str, options: WorkerOptions, claimer: Claimer) -> None:
        self._alias = alias
        self._options = options
        self._claimer = claimer
        self._began = time.monotonic()
        self._busy_at = self._began
        self._weighed_at = 0.0

    def reached(self, *, busy: bool, leased: int) -> str | None:
        """Return which limit has been reached, or None. `busy`: a job was leased, waits or runs."""
        now = time.monotonic()
        options = self._options
        if busy:
            self._busy_at = now
        if options.max_time is not None and now - self._began >= options.max_time:
            return f"{options.max_time:g} s are over"
        if self._is_heavy(now):
            return f"over {options.max_memory:g} MiB of memory in use"
        if busy:
            return None
        if options.max_jobs is not None and leased >= options.max_jobs:
            return f"{leased} jobs done"
        if options.burst:
            return None if self._claimer.has_due() else "nothing is due"
        return self._idle(now)

    def _idle(self, now: float) -> str | None:
        timeout = self._options.idle_timeout
        if timeout is None or now - self._busy_at < timeout:
            return None
        if self._is_expecting():
            self._busy_at = now
            return None
        return f"idle for {timeout:g} s"

    def _is_expecting(self) -> bool:
        """Whether a job that this worker serves is due, leased, or waits for a retry."""
        coming = Q(state=State.READY) & (Q(available_at__lte=Now()) | Q(attempts__gt=0))
        jobs = Job.objects.using(self._alias).filter(coming | Q(state=State.LEASED))
        queues = self._options.queues
        if queues is None:
            queues = tuple(jobs.order_by().values_list("queue", flat=True).distinct())
        return bool(queues) and jobs.filter(self._claimer.mine(queues)).exists()

    def _is_heavy(self, now: float) -> bool:
        if self._options.max_memory is None or now - self._weighed_at < MEMORY_EVERY:
            return False
        self._weighed_at = now
        return resident_bytes() > self._options.max_memory * MEBIBYTE


def resident_bytes() -> int:
    """Return the memory in use now, or the most that ever was where that is not to be had."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
