"""How many jobs to hold beyond those that run: throughput for quick handlers, none for slow ones.

A job that waits behind another one in this worker could be running in another worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..models import Job

# What may wait in this worker: seconds of work, jobs, and characters of payload.
AHEAD = 0.1
MOST = 1000
MOST_TEXT = 32 * 1024 * 1024
# A claim may grow so many fold over the one before: one quick job proves little.
GROWTH = 8
WEIGHT = 0.2
# Seconds below which a longer run may be the interpreter's doing: it went to another thread.
LONG = 0.01


class Pace:
    """Learns from the run time of jobs how many may be leased ahead of their start."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._mean: float | None = None
        self._limit = 0
        self._size = 0.0

    def ran(self, seconds: float) -> None:
        """Take note of a job's run time: at once when it is long, by and by otherwise."""
        if self._mean is None or seconds > max(self._mean, LONG):
            self._mean = seconds
        else:
            self._mean += WEIGHT * (seconds - self._mean)

    def prefetch(self) -> int:
        """Return how many jobs may wait here unstarted."""
        if self._mean is None:
            return 0
        by_time = int(AHEAD * self._concurrency / max(self._mean, 1e-6))
        by_size = int(MOST_TEXT / max(self._size, 1.0))
        return min(by_time, by_size, self._limit, MOST)

    def claimed(self, jobs: Sequence[Job]) -> None:
        """Take note of the jobs that a claim found."""
        self._size = sum(len(job.payload_text) for job in jobs) / len(jobs)
        self._limit = min(MOST, max(GROWTH, len(jobs) * GROWTH))
