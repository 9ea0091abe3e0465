"""The parts of a worker, put together, started and stopped in the right order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import connections

from .. import conf, sql
from ..logs import about
from ..models import WorkerProcess
from .announcer import Announcer
from .claimer import Claimer
from .feeder import Feeder
from .handlers import Handlers
from .holdings import Held, Holdings
from .inline import Inline
from .keeper import Keeper
from .ledger import Ledger, WorkerStats
from .limits import Limits
from .link import Link
from .listener import Listener, Watcher
from .loop import LoopRunner
from .options import WorkerOptions
from .pace import Pace
from .parts import Part
from .runner import Runner
from .settler import Settler
from .waker import Waker

logger = logging.getLogger("django_nobroker")

# Seconds that the parts together are given to end when there is nothing left for them to do, the
# claimer alone before that, and all when the worker is to leave at once.
PART_GRACE = 5.0
FEEDER_GRACE = 2.0
HARD_GRACE = 1.0
# Seconds between two looks of the main thread at what it watches over.
NAP = 0.1


class Crew:
    """One run of a worker.

    The feeder fills the inbox, runners take from it and fill the outbox, the settler empties
    that; the keeper looks after all that is held. The calling thread only watches, and touches
    no database: so it hears every signal, whatever a connection is waiting for.
    """

    def __init__(
        self,
        alias: str,
        process: WorkerProcess,
        options: WorkerOptions,
        handlers: Handlers,
        queue_options: Callable[[str], conf.QueueOptions],
    ) -> None:
        self._alias = alias
        self._options = options
        self._bell = Waker()
        self._waker = Waker()
        self.holdings = Holdings(self._waker.wake)
        self.ledger = Ledger()
        pace = Pace(options.concurrency)
        held = (self.holdings, self.ledger)
        self._claimer = Claimer(
            alias, process.identity, options, handlers, *held, pace, queue_options
        )
        limits = Limits(alias, options, self._claimer)
        self._feeder = Feeder(self._claimer, limits, options, *held, self._waker, self.stop)
        again = self._feeder.look_again
        self._announcer = Announcer(alias, self._crash)
        self._claimer.is_behind = lambda: self._announcer.is_behind
        self._settler = Settler(alias, *held, pace, again, self._announcer.put)
        self._keeper = Keeper(alias, process, options, *held, queue_options, again)
        parts = (options.concurrency, self.holdings, self._settler.put, self._crash)
        self._runner = Runner(*parts)
        self._loop = LoopRunner(*parts)
        self._feeder.attach(self._runner, self._loop, self._settler.put)
        self._feeding = Part("nobroker-claimer", self._feeder.run, self._crash)
        self._settling = Part("nobroker-settler", self._settler.run, self._crash)
        self._keeping = Part("nobroker-keeper", self._keeper.run, self._crash)
        # Whether handlers were given up: they, or threads that they wait for, may run on.
        self.gave_up = False
        self._ears = self._make_ears()
        self._crashed_by: BaseException | None = None
        self._stop = False
        self._hard_stop = False
        # By the monotonic clock, until when what is left may take; None: as long as it wants.
        self._drained_by: float | None = None

    def stop(self, *, hard: bool = False) -> None:
        """Stop claiming and let what runs finish, or leave at once. Safe in a signal handler."""
        self._hard_stop = self._hard_stop or hard
        self._stop = True
        self._feeder.end()
        self._bell.wake()

    def work(self) -> WorkerStats:
        """Work until stopped or until a limit is reached; return what was done."""
        for part in (self._feeding, self._settling, self._keeping):
            part.start()
        if self._ears is not None:
            Part("nobroker-listener", self._ears.run, self._crash).start()
        try:
            while not self._stop:
                self._watch()
            self._drain()
        finally:
            self._end()
        if self._crashed_by is not None:
            raise self._crashed_by
        return self.ledger.stats

    def work_inline(self) -> WorkerStats:
        """Work on this thread and its connection alone; see `inline`."""
        link = Link(self._alias, "worker")
        inline = Inline(
            self._claimer, self._settler, self._announcer, self._keeper, self.holdings, link
        )
        while not self._stop:
            busy = inline.turn(lambda: self._stop)
            self._feeder.check_limits(busy)
            if not busy and not self._stop:
                self._waker.wait(self._feeder.pause())
                self._claimer.lanes.grow_old()
        self._keeper.sign_off()
        return self.ledger.stats

    def _make_ears(self) -> Listener | Watcher | None:
        """Return what wakes this worker sooner than it would look by itself, if anything can."""
        connection = connections[self._alias]
        dialect = sql.dialect(connection)
        if dialect.can_listen(connection) and conf.current().notify:
            return Listener(
                self._alias,
                self._options.serves,
                lambda: self._keeper.peers,
                self._feeder.look_again,
            )
        if dialect.has_data_version:
            return Watcher(self._alias, lambda: self._feeder.is_lively, self._waker.wake)
        return None

    def _watch(self) -> None:
        """Nap, and say once of each job if its lease ran out without being renewed."""
        self._bell.wait(NAP)
        for held in self.holdings.lapsed_now():
            logger.warning(
                "%s: lease lost: it ran out before it could be renewed. Another worker may have "
                "taken the job.",
                held.job,
                extra=about(held.job),
            )

    def _drain(self) -> None:
        """Release what has not been started; wait for what runs, as long as that is wanted."""
        timeout = self._options.shutdown_timeout
        until = self._drained_by = None if timeout is None else time.monotonic() + timeout
        self._wait_while(self._feeding.is_alive, time.monotonic() + FEEDER_GRACE)
        self._feeder.give_back()
        if self.holdings.unfinished:
            logger.info("Worker waits for %s running job(s).", self.holdings.unfinished)
        self._wait_while(lambda: self.holdings.unfinished > 0, until)
        if self.holdings.unfinished:
            logger.info("Worker gives back %s running job(s).", self.holdings.unfinished)

    def _wait_while(self, condition: Callable[[], bool], until: float | None) -> None:
        while condition() and not self._hard_stop:
            if until is not None and time.monotonic() > until:
                return
            self._watch()

    def _end(self) -> None:
        """End the parts; what still runs is given back, and its late outcome is fenced off."""
        is_through = not self.holdings.unfinished
        self.gave_up = not is_through
        until = time.monotonic() + (HARD_GRACE if self._hard_stop else PART_GRACE)

        def left() -> float:
            return max(0.0, until - time.monotonic())

        self._feeder.end()
        if self._ears is not None:
            self._ears.stop()
        # A claim that is under way must have its answer before the settler goes: what it leased
        # is given back.
        self._feeding.join(left() / 2)
        self._runner.stop(left() if is_through else 0.0)
        self._loop.stop(left() if is_through else 0.0)
        for held in self._unfinished_now():
            self._settler.put((held, None, None))
        self._settler.stop()
        self._settling.join(left())
        self._settler.abandon()
        self._announcer.end()
        if is_through:
            self._wait_while(lambda: self._announcer.is_busy, self._drained_by)
        self._announcer.stop(left())
        self._keeper.stop()
        self._keeping.join(left())
        self._feeding.join(left())

    def _unfinished_now(self) -> list[Held]:
        return [held for held in self.holdings.all() if not held.is_finished]

    def _crash(self, error: BaseException) -> None:
        """Note the death of a part: the worker ends, and its leases are renewed no more."""
        logger.critical("A part of the worker died: %s: %s", type(error).__name__, error)
        self._crashed_by = error
        self.stop(hard=True)
