"""From how a handler ended to what becomes of its job, and what is logged of that."""

from __future__ import annotations

import logging
import random
from asyncio import CancelledError

from ..backoff import wait_after
from ..durations import seconds_of
from ..failures import Failure
from ..logs import about
from ..outcomes import Reject, Retry, Snooze
from ..transitions import settle
from .handlers import Fault
from .holdings import Held

logger = logging.getLogger("django_nobroker")

# How often a job whose transaction lost against another is given its attempt back, and the
# seconds after which it is tried again.
CONFLICTS = 50
CONFLICT_PAUSE = (0.05, 0.5)
# Seconds after which a job whose task is unknown is tried again: a part of the time for which it
# has been, between these bounds.
UNKNOWN_PART = 0.25
UNKNOWN_PAUSE = (2.0, 60.0)


def verdict(held: Held, error: BaseException | None) -> settle.Verdict:
    """Return the transition for a handler that returned (None) or raised."""
    job, policy = held.job, held.handler.policy
    if error is None or held.is_settled:
        return settle.acked(job, held.result, forget=held.options.keep_done == 0)
    if held.interrupted and isinstance(error, CancelledError):
        return settle.released(job)
    if isinstance(error, Snooze):
        return settle.snoozed(job, seconds_of(error.seconds, "Snooze", at_least=1.0))
    failure = Failure.of(error)
    if held.fault is Fault.UNKNOWN:
        return _unknown(held, failure)
    is_dead = isinstance(error, policy.dead_on)
    if held.fault is Fault.CONFLICT and job.snoozes < CONFLICTS and not is_dead:
        # Nothing was written, and nobody is to blame.
        return settle.snoozed(job, random.uniform(*CONFLICT_PAUSE))
    if held.fault is Fault.HOPELESS:
        return settle.rejected(job, failure)
    if isinstance(error, Reject) or not (isinstance(error, Retry) or policy.retries(error)):
        return settle.rejected(job, failure)
    if isinstance(error, Retry):
        return settle.nacked(job, failure, seconds_of(error.delay, "Retry(delay=...)"))
    backoff = policy.backoff or held.options.backoff
    return settle.nacked(job, failure, wait_after(backoff, job.attempts))


def _unknown(held: Held, failure: Failure) -> settle.Verdict:
    """Return what becomes of a job whose task is not known here: another release may have it."""
    job, grace = held.job, held.options.unknown_grace
    age = 0.0
    if job.unknown_since is not None and job.leased_at is not None:
        age = (job.leased_at - job.unknown_since).total_seconds()
    if age >= grace:
        return settle.rejected(job, failure)
    least, most = UNKNOWN_PAUSE
    pause = min(max(age * UNKNOWN_PART, least), most)
    # Spread, so that many do not come back at once; and not long after the grace is over.
    return settle.postponed(job, failure, min(pause * random.uniform(0.5, 1.0), grace - age))


def log_failure(held: Held, error: BaseException) -> None:
    """Say that an attempt ended with an error; its text is in the job's Attempt row."""
    job = held.job
    if held.is_settled:
        logger.error(
            "%s is done; what it had left to do after the commit ended with %.200s",
            job,
            type(error).__qualname__,
            extra=about(job),
        )
        return
    # Not the message: it may hold what a log must not.
    logger.warning(
        "%s: attempt %s of %s by %s ended with %.200s",
        job,
        job.attempts,
        job.max_attempts,
        held.handler.name,
        type(error).__qualname__,
        extra=about(job),
    )
