"""Settles in group commits: what ended while the last commit was in flight goes into the next."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from ..backoff import wait_after
from ..failures import Failure
from ..logs import about
from ..outcomes import Snooze
from ..transitions import announce, moves, settle
from .announcer import Finished
from .applier import Applier, Pair
from .handlers import Fault
from .holdings import Held, Holdings
from .ledger import Ledger
from .link import Link, Unreachable
from .pace import Pace
from .runner import Ended
from .verdicts import log_failure, verdict

logger = logging.getLogger("django_nobroker")

MOST = 500
# Seconds to wait for company once something has ended, about what a commit takes; and for more
# company while it keeps coming.
LINGER = 0.003
LINGER_MOST = 0.01
BACK_TO_READY = (moves.RETRY, moves.RELEASE, moves.SNOOZE, moves.POSTPONE)


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
        self._applier = Applier(alias, self._abandoned)
        self._stopping = False

    def put(self, ended: Ended) -> None:
        """Have a job settled as it ended."""
        self._note(ended)
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
                self._settle(group, link)
        link.close()

    def _group(self) -> list[Ended]:
        """Wait for something to settle; return it with what comes soon after."""
        group = [] if (first := self._taken(block=True)) is None else [first]
        until = time.monotonic() + LINGER_MOST
        while group and len(group) < MOST and not self._stopping:
            if self._outbox.empty():
                time.sleep(LINGER)
            if not self._take_more(group) or time.monotonic() > until:
                break
        return group

    def _take_more(self, group: list[Ended]) -> bool:
        """Add what waits in the outbox; return whether that was anything."""
        before = len(group)
        while len(group) < MOST:
            try:
                ended = self._taken(block=False)
            except queue.Empty:
                break
            if ended is None:
                break
            group.append(ended)
        return len(group) > before

    def _taken(self, *, block: bool) -> Ended | None:
        ended = self._outbox.get(block)
        self._stopping = self._stopping or ended is None
        return ended

    def settle_group(self, group: Sequence[Ended], link: Link) -> None:
        """Settle what ended, on the calling thread."""
        for ended in group:
            self._note(ended)
        self._settle(group, link)

    def _note(self, ended: Ended) -> None:
        """Learn from a run time at once: the next claim comes before the settlement."""
        held, _, seconds = ended
        if seconds is not None and held.fault is not Fault.UNKNOWN:
            self._pace.ran(seconds)

    def _settle(self, group: Sequence[Ended], link: Link) -> None:
        """Settle what ended, however often that must be tried; count it."""
        pairs = [self._judged(ended) for ended in group]
        open_ones = [pair for pair in pairs if not (pair[0].is_settled or pair[0].is_lost)]
        applied = self._applier.apply(open_ones, link)
        self._holdings.settled(held for held, _, _ in pairs)
        if any(
            outcome is not None and outcome.move in BACK_TO_READY for outcome in applied.values()
        ):
            self._returned()
        self._tell_of_released(pairs, link)
        for (held, outcome, seconds), (_, error, _) in zip(pairs, group, strict=True):
            if held.is_settled:
                self._report(held, outcome, error, seconds)
            elif (final := applied.get(held.key)) is not None:
                self._report(held, final, error, seconds)
            elif held.is_lost or held.key in applied:
                self._report_late(held, outcome, seconds, link)

    def _tell_of_released(self, pairs: Sequence[Pair], link: Link) -> None:
        """Have other workers told of jobs that this one gave back."""
        queues = {held.job.queue for held, outcome, _ in pairs if outcome.move is moves.RELEASE}
        if queues:
            with contextlib.suppress(Unreachable):
                link.run(lambda: announce(self._alias, queues))

    def _report(
        self, held: Held, outcome: settle.Verdict, error: BaseException | None, seconds: float
    ) -> None:
        """Count what became of a job, and tell whoever is to know."""
        self._ledger.count(held, outcome, seconds, took=True)
        if logger.isEnabledFor(logging.DEBUG):
            name = outcome.move.name
            logger.debug("%s: %s after %.3f s", held.job, name, seconds, extra=about(held.job))
        self._finished((held, outcome, error))

    def _report_late(self, held: Held, outcome: settle.Verdict, seconds: float, link: Link) -> None:
        """Report a job that was no longer held: settled before, or lost."""
        before = self._settled_before(held, link)
        if before is not None:
            self._report(held, before, None, seconds)
            return
        self._ledger.count(held, outcome, seconds, took=False)
        logger.warning(
            "%s: %s by %s came too late, after %.1f s: its lease was lost. Nothing changed.",
            held.job,
            outcome.move.name,
            held.handler.name,
            seconds,
            extra=about(held.job),
        )

    def _settled_before(self, held: Held, link: Link) -> settle.Verdict | None:
        """Return what this very lease was settled as: by its handler, or by an unheard commit."""
        job = held.job
        try:
            if job.verdict_by_hand is not None:
                fence = link.run(lambda: settle.fence_of(self._alias, job))
                return job.verdict_by_hand if fence in (None, job.lease_fence + 1) else None
            if link.run(lambda: settle.was_done(self._alias, job)):
                return settle.acked(job, held.result)
        except Unreachable:
            pass
        return None

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
        is_told = held.is_lost or outcome.move is moves.POSTPONE
        if error is not None and not is_told and not issubclass(type(error), Snooze):
            log_failure(held, error)
        return held, outcome, seconds
