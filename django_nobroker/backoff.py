"""How long a failed job waits before its next attempt.

Whatever the numbers, the answer is finite and not negative: a bad policy never loses a job.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .exceptions import QueueError

logger = logging.getLogger("django_nobroker")

MAX_DELAY = 366 * 86400.0


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Exponential backoff: `base * factor ** (attempt - 1)` seconds, at most `max_delay`.

    A share `jitter` of the delay is random (0: none, 0.5: half fixed and half random, 1: all),
    so that jobs which failed together do not come back together ("equal jitter" in
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
    """

    base: float = 1.0
    factor: float = 2.0
    max_delay: float = 300.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        limits = {"base": MAX_DELAY, "factor": 1e6, "max_delay": MAX_DELAY, "jitter": 1.0}
        for name, most in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise QueueError(f"backoff {name} must be a number, not {type(value).__name__}.")
            if not 0 <= value <= most:
                raise QueueError(f"backoff {name} must be from 0 to {most:g}, not {value}.")

    def ceiling(self, attempt: int) -> float:
        """Return the longest wait in seconds after attempt number `attempt` (from 1) failed."""
        if self.base == 0:
            return 0.0
        exponent = max(attempt, 1) - 1
        if self.factor > 0 and exponent * math.log2(self.factor) > 64:
            return float(self.max_delay)
        return float(min(self.max_delay, self.base * self.factor**exponent))

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after attempt number `attempt` (from 1) failed."""
        ceiling = self.ceiling(attempt)
        # Jitter spreads load; nothing secret hangs on it.
        return ceiling * (1 - self.jitter * random.random())


def wait_after(policy: BackoffPolicy, attempt: int) -> float:
    """Return the seconds that a policy, of whatever subclass, asks for after an attempt.

    An answer that is no finite number, or an error, is the longest wait: the job must not be
    lost to it, nor its worker.
    """
    try:
        seconds = float(policy.delay(attempt))
    except Exception:
        logger.exception("The backoff %r fails at attempt %s.", type(policy), attempt)
        seconds = math.inf
    if math.isfinite(seconds):
        return min(max(seconds, 0.0), MAX_DELAY)
    return BackoffPolicy().max_delay


def checked_backoff(value: Any, name: str) -> BackoffPolicy:
    """Return a policy, also from a dictionary of its fields; raise QueueError for what is none."""
    if isinstance(value, BackoffPolicy):
        return value
    if not isinstance(value, Mapping):
        raise QueueError(f"{name} must be a BackoffPolicy or a dictionary, not {value!r:.80}.")
    known = {item.name for item in fields(BackoffPolicy)}
    unknown = sorted(map(str, value.keys() - known))
    if unknown:
        raise QueueError(
            f"{name} has no key {unknown[0]!r:.80}; it takes {', '.join(sorted(known))}."
        )
    try:
        return BackoffPolicy(**value)
    except QueueError as error:
        raise QueueError(f"{name}: {error}") from None
