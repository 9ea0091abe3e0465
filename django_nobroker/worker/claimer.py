"""Leases what can be started soon, lane by lane, and never more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from django.db import connections

from .. import conf, sql, transitions
from ..clock import Ahead
from ..models import Job, QueueControl, State
from .handlers import Handlers
from .holdings import Held, Holdings
from .lanes import Lanes
from .ledger import Ledger
from .options import WorkerOptions
from .pace import AHEAD, Pace

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
        self._handlers = handlers
        self._holdings = holdings
        self._ledger = ledger
        self._pace = pace
        self._queue_options = queue_options
        self.lanes = Lanes(options, self._read_lanes)
        self._paused: frozenset[str] = frozenset()
        self._paused_until = 0.0

    def room(self) -> int:
        """Return how many jobs to lease now: for the free slots, and some ahead of them."""
        concurrency = self._options.concurrency
        if self._holdings.has_solo:
            # Until it is settled: a crash would take it down although it had finished.
            return max(0, min(concurrency - len(self._holdings), self._left()))
        # One that runs long may be all that runs: then nothing is to wait behind it.
        ahead = 0 if self._holdings.is_stalled(AHEAD) else self._pace.prefetch()
        # In halves, so that claims are few and large. Said before the look, so that a job which
        # finishes in between is not missed.
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
            if len(claimed) >= room or (lane.solo and got):
                break
        if lanes and len(claimed) < room:
            self.lanes.expire()
        self._holdings.wake_when_settled = self._holdings.has_solo
        return claimed

    def has_due(self) -> bool:
        """Return whether a job that this worker would run is due, now or in a moment."""
        lanes = self.lanes.coming(MOMENT)
        queues = {lane.queue for lane in lanes if self.serves(lane.queue)}
        if not queues:
            return False
        # A lane may be due for jobs that only others can run.
        coming = Job.objects.using(self.alias).filter(
            state=State.READY, queue__in=queues, available_at__lte=Ahead(MOMENT), task=""
        )
        return coming.exists()

    def serves(self, queue: str) -> bool:
        """Return whether this worker would run the jobs of a queue now."""
        return (
            queue not in self._options.exclude
            and queue not in self._paused
            and self._handlers.of_queue(queue) is not None
        )

    def _lease(self, lane: sql.Lane, count: int) -> list[Held]:
        handler = self._handlers.of_queue(lane.queue)
        if handler is None:
            return []
        options = self._queue_options(lane.queue)
        deadline = time.monotonic() + options.visibility_timeout
        claim = sql.Claim(
            lane, count, self._identity, options.visibility_timeout, payloads=True, tasks=False
        )
        jobs = transitions.lease(self.alias, claim)
        held = [Held(job, handler, options, deadline=deadline, solo=lane.solo) for job in jobs]
        if held:
            self._holdings.add(held)
            self._ledger.leased(len(held))
            self._pace.claimed(jobs)
            self.lanes.served(lane.queue)
            logger.debug("Leased %s job(s) of queue %s.", len(held), lane.queue)
        return held

    def _left(self) -> int:
        most = self._options.max_jobs
        return 2**31 if most is None else most - self._ledger.stats.leased

    def _read_lanes(self, queues: Any) -> list[sql.Lane]:
        connection = connections[self.alias]
        now = time.monotonic()
        if now >= self._paused_until:
            paused = QueueControl.objects.using(self.alias).values_list("queue", flat=True)
            self._paused = frozenset(paused)
            self._paused_until = now + PAUSED_FOR
        lanes = sql.dialect(connection).lanes(connection, queues)
        return [lane for lane in lanes if lane.queue not in self._paused]
