"""What a handler may raise to settle its job otherwise than by success or plain failure."""

from __future__ import annotations

from datetime import timedelta

from .durations import seconds_of


class Outcome(Exception):
    """Base of the ways in which a handler can choose the outcome of its own job."""


class Reject(Outcome):
    """Dead at once, whatever attempts are left: no retry could make this job succeed."""

    def __init__(self, reason: object = "rejected by its handler") -> None:
        super().__init__(reason)


class Snooze(Outcome):
    """Run again in `seconds` (at least 1), without using up an attempt.

    Raises QueueError for a time below one second or past the year 9999.
    """

    # For a subclass that does not call this constructor.
    seconds = 1.0

    def __init__(self, seconds: float | timedelta) -> None:
        self.seconds = seconds_of(seconds, "Snooze", at_least=1.0)
        super().__init__(f"snoozed for {self.seconds:g} s")


class Retry(Outcome):
    """A failed attempt, tried again after `delay` seconds instead of the backoff's."""

    # For a subclass that does not call this constructor.
    delay = 0.0

    def __init__(
        self, reason: object = "retry asked for by its handler", *, delay: float | timedelta = 0.0
    ) -> None:
        self.delay = seconds_of(delay, "Retry(delay=...)")
        super().__init__(reason)
