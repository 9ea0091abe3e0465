"""From how a handler ended to what becomes of its job. No queries, no clock."""

from __future__ import annotations

from asyncio import CancelledError

from ..backoff import wait_after
from ..failures import Failure
from ..outcomes import Reject, Retry, Snooze
from ..transitions import settle
from .holdings import Held


def verdict(held: Held, error: BaseException | None) -> settle.Verdict:
    """Return the transition for a handler that returned (None) or raised."""
    job, policy = held.job, held.handler.policy
    if error is None:
        return settle.acked(job, forget=held.options.keep_done == 0)
    if held.interrupted and isinstance(error, CancelledError):
        return settle.released(job)
    if isinstance(error, Snooze):
        return settle.snoozed(job, error.seconds)
    failure = Failure.of(error)
    if isinstance(error, Reject) or not (isinstance(error, Retry) or policy.retries(error)):
        return settle.rejected(job, failure)
    if isinstance(error, Retry):
        return settle.nacked(job, failure, error.delay)
    backoff = policy.backoff or held.options.backoff
    return settle.nacked(job, failure, wait_after(backoff, job.attempts))
