"""Settles in group commits: what ended while the last commit was in flight goes into the next."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from ..backoff import wait_after
from ..failures import Failure
from ..logs import about
from ..models import Job
from ..outcomes import Snooze
from ..transitions import moves, settle
from .holdings import Held, Holdings
from .ledger import Ledger
from .link import Link, Unreachable
from .pace import Pace
from .runner import Ended, Unreadable
from .verdicts import verdict

logger = logging.getLogger("django_nobroker")

MOST = 500
# Seconds to wait for company once something has ended: about what a commit takes.
LINGER = 0.003
# How often in a row a database that answers may refuse the same verdicts.
REFUSALS = 5
BACK_TO_READY = (moves.RETRY, moves.RELEASE, moves.SNOOZE)
Pair = tuple[Held, settle.Verdict, float]


class Settler:
    """Takes from the outbox and settles, until it is told to stop and the outbox is empty."""

    def __init__(
        self,
        alias: str,
        holdings: Holdings,
        ledger: Ledger,
        pace: Pace,
        returned: Callable[[], None],
    ) -> None:
        self._alias = alias
        self._holdings = holdings
        self._ledger = ledger
        self._pace = pace
        # Called when jobs have become ready again.
        self._returned = returned
        self._outbox: queue.SimpleQueue[Ended | None] = queue.SimpleQueue()
        self._abandoned = threading.Event()
        self._stopping = False

    def put(self, ended: Ended) -> None:
        """Have a job settled as it ended."""
        self._outbox.put(ended)

    def stop(self) -> None:
        """Settle what is in the outbox, then end."""
        self._outbox.put(None)

    def abandon(self) -> None:
        """End now, whatever is unsettled."""
        self._abandoned.set()
        self._outbox.put(None)

    def run(self) -> None:
        """The loop: group, settle, let go."""
        link = Link(self._alias, "settler")
        while not (self._stopping or self._abandoned.is_set()):
            if group := self._group():
                self.settle_group(group, link)
        link.close()

    def _group(self) -> list[Ended]:
        """Wait for something to settle; return it with what came meanwhile."""
        group = [] if (first := self._taken(block=True)) is None else [first]
        if group and self._outbox.empty():
            time.sleep(LINGER)
        while group and len(group) < MOST:
            try:
                ended = self._taken(block=False)
            except queue.Empty:
                break
            if ended is None:
                break
            group.append(ended)
        return group

    def _taken(self, *, block: bool) -> Ended | None:
        ended = self._outbox.get(block)
        self._stopping = self._stopping or ended is None
        return ended

    def settle_group(self, group: Sequence[Ended], link: Link) -> None:
        """Settle what ended, however often that must be tried; count it."""
        pairs = [self._judged(ended) for ended in group]
        settled = self._apply(pairs, link)
        self._holdings.settled(held for held, _, _ in pairs)
        if any(outcome.move in BACK_TO_READY for _, outcome, _ in pairs):
            self._returned()
        for held, outcome, seconds in pairs:
            if settled is None:
                continue
            took = held.job.id in settled
            self._ledger.count(held, outcome, seconds, took=took)
            self._tell(held, outcome, seconds, took=took)

    def _judged(self, ended: Ended) -> Pair:
        held, error, seconds = ended
        if seconds is None:
            return held, settle.released(held.job), 0.0
        self._pace.ran(seconds)
        if error is not None and not held.is_lost and not isinstance(error, Snooze):
            log_failure(held, error)
        if isinstance(error, Unreadable):
            return held, settle.rejected(held.job, Failure.of(error)), seconds
        return held, verdict(held, error), seconds

    def _tell(self, held: Held, outcome: settle.Verdict, seconds: float, *, took: bool) -> None:
        """Log an event for each job, and a warning for an outcome that came too late."""
        if not took:
            logger.warning(
                "%s: %s by %s came too late, after %.1f s: its lease was lost. Nothing changed.",
                held.job,
                outcome.move.name,
                held.handler.name,
                seconds,
                extra=about(held.job),
            )
        elif logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "%s: %s after %.3f s", held.job, outcome.move.name, seconds, extra=about(held.job)
            )

    def _apply(self, pairs: Sequence[Pair], link: Link) -> set[int] | None:
        """Apply the verdicts; return None if they had to be abandoned to the passing of leases."""
        verdicts = [outcome for _, outcome, _ in pairs]
        refusals = 0
        while True:
            try:
                return link.run(lambda: settle.apply(self._alias, verdicts))
            except Exception as error:
                if isinstance(error, Unreachable):
                    # A connection that breaks is nobody's fault; these verdicts are to blame only
                    # if they are refused again and again by a database that answers others.
                    refusals = refusals + 1 if self._is_reachable(link) else 0
                    if refusals < REFUSALS:
                        if self._abandoned.wait(link.pause):
                            return None
                        continue
                # It is not the database, but something among the verdicts.
                if len(pairs) == 1:
                    return self._rewritten(pairs[0], error, link)
                break
        settled: set[int] = set()
        for pair in pairs:
            settled |= self._apply([pair], link) or set()
        return settled

    def _is_reachable(self, link: Link) -> bool:
        """Return whether the database answers another statement."""
        try:
            link.run(lambda: Job.objects.using(self._alias).filter(pk=0).exists())
        except Unreachable:
            return False
        return True

    def _rewritten(self, pair: Pair, error: Exception, link: Link) -> set[int] | None:
        """Settle as failed a job whose outcome the database refuses, or leave it to its lease."""
        held = pair[0]
        # Not the text of the error, in which some databases show the whole row.
        name = type(error).__name__
        logger.error("%s cannot be settled as it ended: %s", held.job, name, extra=about(held.job))
        delay = wait_after(held.options.backoff, held.job.attempts)
        failure = Failure.of(f"its outcome could not be stored: {name}")
        outcome = settle.nacked(held.job, failure, delay)
        try:
            return link.run(lambda: settle.apply(self._alias, [outcome]))
        except Exception as second:
            logger.error(
                "%s is left to its lease: %s",
                held.job,
                type(second).__name__,
                extra=about(held.job),
            )
            return None


def log_failure(held: Held, error: BaseException) -> None:
    """Say that an attempt ended with an error; its text is in the job's Attempt row."""
    job = held.job
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
