"""Feeds the runners: claims, hands out, waits, and takes back what waits behind slow handlers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .claimer import Claimer
from .holdings import Held, Holdings
from .ledger import Ledger
from .limits import Limits
from .link import Link, Unreachable
from .loop import LoopRunner
from .options import WorkerOptions
from .runner import Ended, Runner
from .tasks import Tasks
from .waker import Waker

logger = logging.getLogger("django_nobroker")

# Seconds until the first look after there was work, doubled with each that finds nothing; where
# nothing wakes a worker it looks more often for as long as there was some lately.
FIRST_LOOK = 0.005
LIVELY_FOR = 10.0
# Jobs that have waited here for so many seconds, while none ended, are given back.
STALE = 0.2


class Feeder:
    """The loop of a worker that asks the database for work, on a thread of its own.

    Not on the main thread: a driver that waits for a dead network hears no signal.
    """

    def __init__(
        self,
        claimer: Claimer,
        limits: Limits,
        options: WorkerOptions,
        holdings: Holdings,
        ledger: Ledger,
        waker: Waker,
        stop: Callable[[], None],
    ) -> None:
        self._claimer = claimer
        self._limits = limits
        self._options = options
        self._holdings = holdings
        self._ledger = ledger
        self._waker = waker
        self._stop = stop
        self._tasks = Tasks()
        self._is_stopped = False
        self._interval = options.poll_interval
        self._busy_at = time.monotonic()

    def attach(self, runner: Runner, loop: LoopRunner, ended: Callable[[Ended], None]) -> None:
        """Tell where jobs run, and where those go that are given back."""
        self._runner = runner
        self._loop = loop
        self._ended = ended

    def run(self) -> None:
        """The loop."""
        link = Link(self._claimer.alias, "claimer")
        while not self._is_stopped:
            self._turn(link)
        link.close()

    def end(self) -> None:
        """End the loop after the turn that is under way. Safe in a signal handler."""
        self._is_stopped = True
        self._waker.wake()

    def look_again(self) -> None:
        """Have the lanes read at the next turn, and that at once: jobs have become ready."""
        self._claimer.lanes.expire()
        self._waker.wake()

    def check_limits(self, busy: bool) -> None:
        """Stop the worker if it has reached one of its limits."""
        reason = self._limits.reached(busy=busy, leased=self._ledger.taken)
        if reason is not None and not self._is_stopped:
            logger.info("Worker stops: %s.", reason)
            self._stop()

    def pause(self) -> float:
        """Return the seconds until the next look: the poll interval, or until a job is due."""
        next_due = self._claimer.lanes.next_due()
        interval = self._interval
        # Soon after there was work there may be more, of which nobody was told.
        self._interval = min(2 * interval, self._longest_interval())
        if self._has_waiting():
            interval = min(interval, STALE)
        return interval if next_due is None else min(interval, next_due)

    @property
    def is_lively(self) -> bool:
        """Whether there has been work lately."""
        return time.monotonic() - self._busy_at < LIVELY_FOR

    def _longest_interval(self) -> float:
        lively = self._claimer.lively_interval
        if lively is None or not self.is_lively:
            return self._options.poll_interval
        return min(lively, self._options.poll_interval)

    def give_back(self) -> None:
        """Release all that has not been started."""
        for held in [*self._runner.withdraw(), *self._loop.withdraw()]:
            self._release(held)

    def _turn(self, link: Link) -> None:
        try:
            claimed = link.run(self._claimer.claim)
            self._hand_out(claimed)
            found = self._claimer.handlers.look_up()
            busy = bool(claimed) or found or len(self._holdings) > 0
            link.run(lambda: self.check_limits(busy))
        except Unreachable:
            self._waker.wait(link.pause)
            return
        if claimed:
            self._busy_at = time.monotonic()
            self._interval = min(FIRST_LOOK, self._options.poll_interval)
        if found:
            self._claimer.lanes.forgive()
        elif not claimed and not self._is_stopped:
            if self._has_waiting() and self._holdings.is_stalled(STALE):
                self.give_back()
            self._waker.wait(self.pause())
            self._claimer.lanes.grow_old()

    def _hand_out(self, claimed: list[Held]) -> None:
        for held in claimed:
            if self._is_stopped:
                self._release(held)
            elif (error := self._tasks.assign(held)) is not None:
                self._holdings.finished(held)
                self._ended((held, error, 0.0))
            else:
                (self._loop if held.handler.on_loop else self._runner).submit(held)

    def _release(self, held: Held) -> None:
        self._holdings.finished(held)
        self._ended((held, None, None))

    def _has_waiting(self) -> bool:
        """Return whether leased jobs wait for a runner."""
        return self._holdings.unfinished > self._options.concurrency
