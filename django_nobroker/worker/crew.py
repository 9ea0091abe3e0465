"""The parts of a worker, put together, started and stopped in the right order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .. import conf
from ..models import WorkerProcess
from .claimer import Claimer
from .handlers import Handlers
from .holdings import Held, Holdings
from .inline import Inline
from .keeper import Keeper
from .ledger import Ledger, WorkerStats
from .limits import Limits
from .link import Link, Unreachable
from .loop import LoopRunner
from .options import WorkerOptions
from .pace import Pace
from .parts import Part
from .runner import Runner
from .settler import Settler
from .waker import Waker

logger = logging.getLogger("django_nobroker")

# Seconds that parts are given to end once there is nothing left for them to do.
PART_GRACE = 5.0
# A job that has waited here for so many seconds while others run is given back.
STALE = 0.2


class Crew:
    """One run of a worker.

    The calling thread claims. Runners take jobs from the inbox, the settler from the outbox;
    the keeper looks after all that is held.
    """

    def __init__(
        self,
        alias: str,
        process: WorkerProcess,
        options: WorkerOptions,
        handlers: Handlers,
        queue_options: Callable[[str], conf.QueueOptions],
    ) -> None:
        self._options = options
        self.waker = Waker()
        self.holdings = Holdings(self.waker.wake)
        self.ledger = Ledger()
        self._link = Link(alias, "claimer")
        self._pace = Pace(options.concurrency)
        self._claimer = Claimer(
            alias,
            process.identity,
            options,
            handlers,
            self.holdings,
            self.ledger,
            self._pace,
            queue_options,
        )
        self._limits = Limits(alias, options, self._claimer)
        self._settler = Settler(alias, self.holdings, self.ledger, self._pace, self._look_again)
        self._keeper = Keeper(
            alias, process, options, self.holdings, self.ledger, queue_options, self._look_again
        )
        parts = (options.concurrency, self.holdings, self._settler.put, self._crash)
        self._runner = Runner(*parts)
        self._loop = LoopRunner(*parts)
        self._threads = [
            Part("nobroker-settler", self._settler.run, self._crash),
            Part("nobroker-keeper", self._keeper.run, self._crash),
        ]
        self._crashed_by: BaseException | None = None
        self._stop = False
        self._hard_stop = False

    def stop(self, *, hard: bool = False) -> None:
        """Stop claiming and let what runs finish, or leave at once. Safe in a signal handler."""
        self._hard_stop = self._hard_stop or hard
        self._stop = True
        self.waker.wake()

    def work(self) -> WorkerStats:
        """Work until stopped or until a limit is reached; return what was done."""
        for thread in self._threads:
            thread.start()
        try:
            while not self._stop:
                self._turn()
            self._drain()
        finally:
            self._end()
        if self._crashed_by is not None:
            raise self._crashed_by
        return self.ledger.stats

    def work_inline(self) -> WorkerStats:
        """Work on this thread and its connection alone; see `inline`."""
        inline = Inline(self._claimer, self._settler, self._keeper, self.holdings, self._link)
        while not self._stop:
            busy = inline.turn(lambda: self._stop)
            self._check_limits(busy)
            if not busy and not self._stop:
                self.waker.wait(self._pause())
        self._keeper.sign_off()
        return self.ledger.stats

    def _turn(self) -> None:
        """The loop in a breath: claim, hand out, or wait."""
        try:
            claimed = self._link.run(self._claimer.claim)
            self._hand_out(claimed)
            self._link.run(lambda: self._check_limits(bool(claimed) or len(self.holdings) > 0))
        except Unreachable:
            self.waker.wait(self._link.pause)
            return
        if not claimed and not self._stop:
            self._give_back_stale()
            self.waker.wait(self._pause())

    def _hand_out(self, claimed: list[Held]) -> None:
        for held in claimed:
            (self._loop if held.handler.is_async else self._runner).submit(held)

    def _check_limits(self, busy: bool) -> None:
        reason = self._limits.reached(busy=busy, leased=self.ledger.stats.leased)
        if reason is not None and not self._stop:
            logger.info("Worker stops: %s.", reason)
            self._stop = True

    def _pause(self) -> float:
        """Return the seconds until the next look: the poll interval, or until a job is due."""
        next_due = self._claimer.lanes.next_due()
        interval = self._options.poll_interval
        if self._has_waiting():
            interval = min(interval, STALE)
        return interval if next_due is None else min(interval, next_due)

    def _look_again(self) -> None:
        """Have the claimer read the lanes, since jobs have become ready."""
        self._claimer.lanes.expire()
        self.waker.wake()

    def _has_waiting(self) -> bool:
        """Return whether leased jobs wait for a runner."""
        return self.holdings.unfinished > self._options.concurrency

    def _give_back_stale(self) -> None:
        """Release what waits behind handlers that turned out slow: other workers may be free."""
        if self._has_waiting() and self._pace.is_stalled(STALE):
            self._release(self._withdrawn())

    def _withdrawn(self) -> list[Held]:
        return [*self._runner.withdraw(), *self._loop.withdraw()]

    def _release(self, unstarted: list[Held]) -> None:
        for held in unstarted:
            self.holdings.finished(held)
            self._settler.put((held, None, None))

    def _drain(self) -> None:
        """Release what has not been started; wait for what runs, as long as that is wanted."""
        self._release(self._withdrawn())
        timeout = self._options.shutdown_timeout
        until = None if timeout is None else time.monotonic() + timeout
        if self.holdings.unfinished:
            logger.info("Worker waits for %s running job(s).", self.holdings.unfinished)
        while self.holdings.unfinished and not self._hard_stop and self._crashed_by is None:
            if until is not None and time.monotonic() > until:
                logger.warning("Worker no longer waits: the shutdown timeout is over.")
                break
            self.waker.wait(0.05)

    def _end(self) -> None:
        """End the parts; what still runs is given back, and its late outcome is fenced off."""
        is_through = not self.holdings.unfinished
        self._runner.stop(PART_GRACE if is_through else 0.0)
        self._loop.stop(PART_GRACE if is_through else 0.0)
        for held in self._unfinished_now():
            self._settler.put((held, None, None))
        self._settler.stop()
        self._threads[0].join(PART_GRACE)
        self._settler.abandon()
        self._keeper.stop()
        self._threads[1].join(PART_GRACE)
        self._link.close()

    def _unfinished_now(self) -> list[Held]:
        return [held for held in self.holdings.all() if not held.is_finished]

    def _crash(self, error: BaseException) -> None:
        """Note the death of a part: the worker ends, and its leases are renewed no more."""
        logger.critical("A part of the worker died: %s: %s", type(error).__name__, error)
        self._crashed_by = error
        self.stop(hard=True)
