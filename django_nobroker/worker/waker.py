"""Waits until there may be something to do: a signal, a finished job, or the next look."""

from __future__ import annotations

import queue


class Waker:
    """Polling: the truth beneath every other way to be woken."""

    def __init__(self) -> None:
        # Not an Event, whose lock a signal handler could find held by its own thread.
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._called = False

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or sooner if called since the last wait."""
        try:
            self._calls.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return
        self._called = False

    def wake(self) -> None:
        """End the wait that is under way, or the next one. Safe in a signal handler."""
        if not self._called:
            self._called = True
            self._calls.put(None)
