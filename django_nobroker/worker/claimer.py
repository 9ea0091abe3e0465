"""Leases what can be started soon, lane by lane, and never more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.db import connections
from django.db.models import Q

from .. import conf, sql, tasks, transitions
from ..clock import Ahead
from ..models import Job, QueueControl, State
from .handlers import Handlers
from .holdings import Held, Holdings
from .lanes import Lanes
from .ledger import Ledger
from .options import WorkerOptions
from .pace import AHEAD, Pace
from .tasks import NoHandler

logger = logging.getLogger("django_nobroker")

# Seconds within which a job that comes due is not worth an end and a new start.
MOMENT = 0.01
# Seconds for which the list of paused queues is believed.
PAUSED_FOR = 0.5


class Claimer:
    """Turns free slots into leased jobs. All its methods use the caller's connection."""

    def __init__(
        self,
        alias: str,
        identity: str,
        options: WorkerOptions,
        handlers: Handlers,
        holdings: Holdings,
        ledger: Ledger,
        pace: Pace,
        queue_options: Callable[[str], conf.QueueOptions],
    ) -> None:
        self.alias = alias
        self._identity = identity
        self._options = options
        self.handlers = handlers
        self._holdings = holdings
        self._ledger = ledger
        self._pace = pace
        self._queue_options = queue_options
        self.lanes = Lanes(options, self._read_lanes)
        # Whether what follows the work cannot keep up with it.
        self.is_behind: Callable[[], bool] = lambda: False
        self._paused: frozenset[str] = frozenset()
        self._paused_until = 0.0

    @property
    def lively_interval(self) -> float | None:
        """Seconds between two looks while there is work now and then, if the database asks so."""
        return sql.dialect(connections[self.alias]).lively_interval

    def room(self) -> int:
        """Return how many jobs to lease now: for the free slots, and some ahead of them."""
        if self.is_behind():
            return 0
        concurrency = self._options.concurrency
        if self._holdings.has_solo:
            # Until it is settled: a crash would take it down although it had finished.
            return max(0, min(concurrency - len(self._holdings), self._left()))
        # One that runs long may be all that runs: then nothing is to wait behind it.
        ahead = 0 if self._holdings.is_stalled(AHEAD) else self._pace.prefetch()
        # When half is used up: claims are few and large, and the other half keeps the runners
        # at work until the answer is there. Said before the look, so that a job which finishes
        # in between is not missed.
        self._holdings.wake_at = max(concurrency - 1, ahead // 2)
        unfinished = self._holdings.unfinished
        if unfinished > self._holdings.wake_at:
            return 0
        return max(0, min(concurrency + ahead - unfinished, self._left()))

    def claim(self) -> list[Held]:
        """Lease jobs for the room there is, from the first lanes that have any."""
        self._holdings.wake_when_settled = True
        room = self.room()
        lanes = self.lanes.due() if room else []
        claimed: list[Held] = []
        for lane in lanes:
            if lane.solo and len(self._holdings) >= self._options.concurrency:
                # It is its turn, and it needs a free slot: nothing more is leased before it.
                self._holdings.wake_at = -1
                return claimed
            try:
                got = self._lease(lane, 1 if lane.solo else room - len(claimed))
            except Exception:
                if not claimed:
                    raise
                # What is leased already must reach its runner; the next turn meets the error.
                self.lanes.expire()
                break
            claimed += got
            if not got:
                self.lanes.barren(lane)
                self._tell_of_waiting(lane.queue)
            if len(claimed) >= room or (lane.solo and got):
                break
        if lanes and len(claimed) < room:
            self.lanes.expire()
        self._holdings.wake_when_settled = self._holdings.has_solo
        return claimed

    def has_due(self) -> bool:
        """Return whether a job that this worker would run is due, now or in a moment."""
        lanes = self.lanes.coming(MOMENT)
        if not lanes:
            return False
        # A lane may be due for jobs that only others can run.
        coming = Job.objects.using(self.alias).filter(
            self.mine({lane.queue for lane in lanes}),
            state=State.READY,
            available_at__lte=Ahead(MOMENT),
        )
        return coming.exists()

    def mine(self, queues: Iterable[str]) -> Q:
        """Return the condition for the jobs of these queues that this worker would run now."""
        served = [
            queue
            for queue in queues
            if queue not in self._options.exclude and queue not in self._paused
        ]
        with_handler = [queue for queue in served if self.handlers.of_queue(queue) is not None]
        condition = Q(queue__in=with_handler, task="")
        return condition | Q(queue__in=served) & ~Q(task="") if tasks.SUPPORTED else condition

    def _lease(self, lane: sql.Lane, count: int) -> list[Held]:
        handler = self.handlers.of_queue(lane.queue)
        if handler is None and not tasks.SUPPORTED:
            return []
        options = self._queue_options(lane.queue)
        deadline = time.monotonic() + options.visibility_timeout
        claim = sql.Claim(
            lane,
            count,
            self._identity,
            options.visibility_timeout,
            payloads=handler is not None,
            tasks=tasks.SUPPORTED,
        )
        jobs = transitions.lease(self.alias, claim)
        held = [
            Held(
                job,
                handler or NoHandler(job.task),
                options,
                deadline=deadline,
                solo=lane.solo,
            )
            for job in jobs
        ]
        if held:
            self._holdings.add(held)
            self._ledger.leased(len(held))
            self._pace.claimed(jobs)
            self.lanes.served(lane.queue)
            logger.debug("Leased %s job(s) of queue %s.", len(held), lane.queue)
        return held

    def _tell_of_waiting(self, queue: str) -> None:
        """Say once of a queue that jobs in it wait for a handler; those of tasks need none."""
        if self.handlers.is_lacking(queue):
            ready = Job.objects.using(self.alias).filter(queue=queue, state=State.READY)
            if ready.filter(task="").exists():
                self.handlers.tell_lacking(queue)

    def _left(self) -> int:
        most = self._options.max_jobs
        return 2**31 if most is None else most - self._ledger.taken

    def _read_lanes(self, queues: Any) -> list[sql.Lane]:
        connection = connections[self.alias]
        now = time.monotonic()
        if now >= self._paused_until:
            paused = QueueControl.objects.using(self.alias).values_list("queue", flat=True)
            self._paused = frozenset(paused)
            self._paused_until = now + PAUSED_FOR
        lanes = sql.dialect(connection).lanes(connection, queues)
        return [lane for lane in lanes if lane.queue not in self._paused]
