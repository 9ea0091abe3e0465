"""Whole numbers within bounds, checked in one way and refused in the same words."""

from __future__ import annotations

from typing import Any

from .exceptions import QueueError


def whole_number(value: Any, name: str, *, least: int, most: int | None = None) -> int:
    """Return `value`; raise QueueError for anything but a whole number within its bounds.

    True and False are not numbers here, whatever Python says.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or value < least or (most is not None and value > most):
        bounds = f"from {least}" if most is None else f"from {least} to {most}"
        raise QueueError(f"{name} must be a whole number {bounds}, not {value!r:.80}.")
    return int(value)
