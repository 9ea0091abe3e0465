"""Keeps the promises that depend on time: renews leases, reaps, prunes, and shows signs of life.

On a thread and a connection of its own, so that no handler and no commit can hold it up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from .. import conf, transitions
from ..clock import Ahead, Now
from ..logs import about
from ..models import WorkerProcess
from ..transitions import settle
from .holdings import Held, Holdings
from .ledger import Ledger, forget_minutes
from .link import STATEMENT_ERRORS, Link, Unreachable
from .options import WorkerOptions

logger = logging.getLogger("django_nobroker")

# Renewed when less than this share of the lease is left.
RENEW_BELOW = 2 / 3
BEATS_A_LEASE = 4
LONGEST_BEAT = 1.0
# Seconds of one beat that reaping, and that pruning, may take.
BUDGET = 0.5
REAP_EVERY = 1.0
PRUNE_EVERY = 10.0
HEARTBEAT_EVERY = 10.0
MINUTES_EVERY = 60.0
# A worker that has not been heard of for so many heartbeats is taken off the list.
FORGOTTEN_AFTER = 60 * HEARTBEAT_EVERY
SIGN_OFF_TRIES = 2
# A handler that runs so many visibility timeouts is worth a warning.
LONG_RUN = 10


class Keeper:
    """One beat after the other; what fails is tried again at the next."""

    def __init__(
        self,
        alias: str,
        process: WorkerProcess,
        options: WorkerOptions,
        holdings: Holdings,
        ledger: Ledger,
        queue_options: Callable[[str], conf.QueueOptions],
        returned: Callable[[], None],
    ) -> None:
        self._alias = alias
        self._process = process
        self._options = options
        self._holdings = holdings
        self._ledger = ledger
        self._queue_options = queue_options
        # Called when jobs have become ready again.
        self._returned = returned
        self._stopped = threading.Event()
        self._link = Link(alias, "keeper")
        self._in_touch_since: float | None = None
        self._last_beat = time.monotonic()
        self._due: dict[str, float] = {}
        # How many workers were up when this one last showed a sign of life, itself included.
        self.peers = 1

    def stop(self) -> None:
        """End after the beat that is under way."""
        self._stopped.set()

    def run(self) -> None:
        """The loop; at its end the last minutes are written and the worker signs off."""
        while not self._stopped.wait(self.beat()):
            pass
        for _ in range(SIGN_OFF_TRIES):
            try:
                self._link.run(self.sign_off)
                break
            except Unreachable:
                # The connection had broken, and has been dropped: the next try has a new one.
                continue
        else:
            logger.warning("Worker %s could not sign off.", self._process.identity)
        self._link.close()

    def beat(self) -> float:
        """Do what is due; return the seconds until the next beat."""
        shortest = self._shortest_timeout()
        now = time.monotonic()
        if now - self._last_beat > shortest:
            # This process was stopped, or starved: others may have taken its jobs meanwhile.
            self._in_touch_since = None
        self._last_beat = now
        try:
            self._link.run(self.renew)
            if time.monotonic() - now > shortest:
                # Held up that long, as the others may have been: they must renew first.
                self._in_touch_since = None
            self.sweep()
        except STATEMENT_ERRORS as error:
            logger.error("The keeper's sweep failed: %s; it tries again.", type(error).__name__)
        except Unreachable:
            self._in_touch_since = None
        return min(LONGEST_BEAT, shortest / BEATS_A_LEASE)

    def renew(self) -> None:
        """Renew the leases of all that is held, prefetched jobs too; note those that are lost."""
        now = time.monotonic()
        due = [
            held
            for held in self._holdings.all()
            if not held.is_lost
            and held.deadline - now < held.options.visibility_timeout * RENEW_BELOW
        ]
        if not due:
            return
        renewed = settle.extend(
            self._alias,
            [(held.job, held.options.visibility_timeout) for held in due],
            wait=False,
        )
        missing = []
        for held in due:
            if held.job.id in renewed:
                held.deadline = now + held.options.visibility_timeout
                held.job.lease_lost = False
                self._warn_of_long_run(held, now)
            else:
                missing.append(held)
        self._lose(missing)

    def sweep(self) -> None:
        """Reap, prune, count and show a sign of life, each when it is due.

        Each batch by itself: on SQLite the parts of a worker take turns.
        """
        if self._is_due("reap", REAP_EVERY):
            self._reap()
        if self._is_due("prune", PRUNE_EVERY):
            self._prune()
        if self._is_due("heartbeat", HEARTBEAT_EVERY):
            self._link.run(self.show)
        if self._is_due("minutes", MINUTES_EVERY):
            self._link.run(lambda: self._ledger.write(self._alias))
            self._link.run(lambda: forget_minutes(self._alias))

    def show(self) -> None:
        """Write the row that people see."""
        workers = WorkerProcess.objects.using(self._alias)
        alive = workers.filter(pk=self._process.pk).update(
            heartbeat_at=Now(), running=self._holdings.unfinished
        )
        if not alive:
            self._process.save(using=self._alias, force_insert=True)
        workers.filter(heartbeat_at__lt=Ahead(-FORGOTTEN_AFTER)).delete()
        self.peers = max(1, workers.count())

    def sign_off(self) -> None:
        """Write the last minutes and remove the row that people see."""
        self._ledger.write(self._alias)
        WorkerProcess.objects.using(self._alias).filter(pk=self._process.pk).delete()

    def _reap(self) -> None:
        began = time.monotonic()
        expired = self._link.run(
            lambda: transitions.queues_with_expired(self._alias, self._options.queues)
        )
        if self._in_touch_since is None or time.monotonic() - began > self._shortest_timeout():
            # In touch from here on: by this very answer.
            self._in_touch_since = time.monotonic()
            return
        in_touch = began - self._in_touch_since
        reaped = transitions.REAP_BATCH if expired else 0
        while reaped == transitions.REAP_BATCH and time.monotonic() - began < BUDGET:
            try:
                reaped = self._reap_some(expired, in_touch)
            except transitions.HeldUp:
                self._in_touch_since = None
                return
            if reaped:
                self._returned()

    def _reap_some(self, expired: list[str], in_touch: float) -> int:
        # From before the first try: what is repeated after a conflict has waited all the while.
        asked = time.monotonic()
        return self._link.run(
            lambda: transitions.reap(
                self._alias, self._queue_options, in_touch=in_touch, queues=expired, asked=asked
            )
        )

    def _prune(self) -> None:
        settings = conf.current()
        until = time.monotonic() + BUDGET
        while self._link.run(
            lambda: transitions.prune(self._alias, settings.defaults, dict(settings.queues))
        ):
            if time.monotonic() > until:
                # There may be more: go on at the next beat.
                self._due.pop("prune")
                return

    def _is_due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    def _lose(self, missing: list[Held]) -> None:
        """Tell what is lost from what only is locked, by a transaction of its own handler."""
        if not missing:
            return
        kept = settle.still_held(self._alias, [held.job for held in missing])
        present = {held.key for held in self._holdings.all()}
        for held in missing:
            if held.job.id in kept or held.key not in present or held.is_finished:
                continue
            held.lose()
            logger.warning(
                "%s: lease lost; its deadline passed, or it was cancelled. What its handler "
                "returns will change nothing.",
                held.job,
                extra=about(held.job),
            )

    def _warn_of_long_run(self, held: Held, now: float) -> None:
        limit = LONG_RUN * held.options.visibility_timeout
        if not held.warned and held.started is not None and now - held.started > limit:
            held.warned = True
            logger.warning(
                "%s has been running for %.0f s, over %s times its visibility timeout. It is "
                "still held.",
                held.job,
                now - held.started,
                LONG_RUN,
                extra=about(held.job),
            )

    def _shortest_timeout(self) -> float:
        settings = conf.current()
        queues = self._options.queues or tuple(settings.queues)
        known = [self._queue_options(name).visibility_timeout for name in queues]
        held = [held.options.visibility_timeout for held in self._holdings.all()[:1000]]
        return min([*known, *held, settings.defaults.visibility_timeout])
