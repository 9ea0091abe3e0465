"""Seconds and timedeltas made into one kind of number, within the limits of time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from .exceptions import QueueError

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)


def seconds_of(value: float | timedelta, name: str, *, at_least: float | None = None) -> float:
    """Return `value` as finite seconds; a negative time is returned as it is.

    Raises QueueError for what is not a duration (NaN and infinity included), for less than
    `at_least`, and for a time that, from now, lies past the year 9999.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueueError(f"{name} must be seconds or a timedelta, not {type(value).__name__}.")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise QueueError(f"{name} must be a finite number of seconds, not {seconds}.")
    if at_least is not None and seconds < at_least:
        raise QueueError(f"{name} must be at least {at_least:g} seconds, not {seconds:g}.")
    if seconds > (LATEST - datetime.now(UTC)).total_seconds():
        raise QueueError(f"{name} of {seconds:g} seconds ends past the year 9999.")
    return seconds
