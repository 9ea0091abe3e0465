"""Settles in group commits: what ended while the last commit was in flight goes into the next."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from django.db.models import F

from ..backoff import wait_after
from ..failures import Failure
from ..logs import about
from ..models import Job
from ..outcomes import Snooze
from ..transitions import announce, moves, settle
from .announcer import Finished
from .holdings import Held, Holdings
from .ledger import Ledger
from .link import Link, Unreachable
from .pace import Pace
from .runner import Ended
from .verdicts import log_failure, verdict

logger = logging.getLogger("django_nobroker")

MOST = 500
# Seconds to wait for company once something has ended: about what a commit takes.
LINGER = 0.003
# How often in a row a database that answers may refuse the same verdicts.
REFUSALS = 5
BACK_TO_READY = (moves.RETRY, moves.RELEASE, moves.SNOOZE, moves.POSTPONE)
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
        finished: Callable[[Finished], None],
    ) -> None:
        self._alias = alias
        self._holdings = holdings
        self._ledger = ledger
        self._pace = pace
        # Called when jobs have become ready again.
        self._returned = returned
        # Called with each job that was settled.
        self._finished = finished
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
        unsettled = [pair for pair in pairs if not (pair[0].is_settled or pair[0].is_lost)]
        settled = self._apply(unsettled, link) if unsettled else set()
        self._holdings.settled(held for held, _, _ in pairs)
        if any(outcome.move in BACK_TO_READY for _, outcome, _ in pairs):
            self._returned()
        self._tell_of_released(pairs, link)
        for pair, (_, error, _) in zip(pairs, group, strict=True):
            if settled is not None or pair[0].is_settled:
                self._report(pair, error, settled or set(), link)

    def _tell_of_released(self, pairs: Sequence[Pair], link: Link) -> None:
        """Have other workers told of jobs that this one gave back."""
        queues = {held.job.queue for held, outcome, _ in pairs if outcome.move is moves.RELEASE}
        if queues:
            with contextlib.suppress(Unreachable):
                link.run(lambda: announce(self._alias, queues))

    def _report(
        self, pair: Pair, error: BaseException | None, settled: set[int], link: Link
    ) -> None:
        """Count what became of a job, and tell whoever is to know."""
        held, outcome, seconds = pair
        took = held.is_settled or (held.job.id in settled and not held.is_lost)
        if not took and self._was_settled_by_hand(held, link):
            took, outcome = True, held.job.verdict_by_hand
        self._ledger.count(held, outcome, seconds, took=took)
        self._tell(held, outcome, seconds, took=took)
        if took:
            self._finished((held, outcome, error))

    def _was_settled_by_hand(self, held: Held, link: Link) -> bool:
        """Return whether the handler settled its own job, and that was committed."""
        job = held.job
        if job.verdict_by_hand is None:
            return False
        rows = Job.objects.using(self._alias).filter(pk=job.id).values_list("fence", flat=True)
        try:
            fence = link.run(rows.first)
        except Unreachable:
            return False
        return fence is None or fence == job.lease_fence + 1

    def _judged(self, ended: Ended) -> Pair:
        held, error, seconds = ended
        if seconds is None:
            return held, settle.released(held.job), 0.0
        try:
            outcome = verdict(held, error)
        except BaseException as problem:
            # An exception class of the user's own may do anything when it is asked.
            logger.exception("%s: its error cannot be judged.", held.job, extra=about(held.job))
            delay = wait_after(held.options.backoff, held.job.attempts)
            outcome = settle.nacked(held.job, Failure.of(problem), delay)
        if outcome.move is not moves.POSTPONE:
            self._pace.ran(seconds)
            if error is not None and not held.is_lost and not issubclass(type(error), Snooze):
                log_failure(held, error)
        return held, outcome, seconds

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
        """Return whether the database takes another statement: a write, which changes nothing.

        One that is read-only for now, or locked, answers whoever only reads.
        """
        nothing = Job.objects.using(self._alias).filter(pk=0)
        return link.takes(lambda: nothing.update(fence=F("fence")))

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
