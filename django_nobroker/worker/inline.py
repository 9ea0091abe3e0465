"""A worker without threads: on the caller's own connection, one job after the other.

For a test inside its own transaction, which no other connection can see into, and for a
database that lives in memory. Leases are not renewed meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections

from .. import sql
from .announcer import Announcer
from .claimer import Claimer
from .holdings import Held, Holdings
from .keeper import Keeper
from .link import Link
from .loop import run_async
from .runner import run_plain
from .settler import Settler
from .tasks import Tasks


class Inline:
    """The parts of a worker, called in turn."""

    def __init__(
        self,
        claimer: Claimer,
        settler: Settler,
        announcer: Announcer,
        keeper: Keeper,
        holdings: Holdings,
        link: Link,
    ) -> None:
        self._announcer = announcer
        announcer.threaded = False
        self._claimer = claimer
        self._settler = settler
        self._keeper = keeper
        self._holdings = holdings
        self._link = link
        self._tasks = Tasks()

    def turn(self, stopping: Callable[[], bool]) -> bool:
        """Lease, run and settle what is due; return whether there was anything."""
        self._keeper.beat()
        claimed = self._claimer.claim()
        if self._claimer.handlers.look_up():
            self._claimer.lanes.forgive()
            claimed += self._claimer.claim()
        for index, held in enumerate(claimed):
            if stopping():
                self._settler.settle_group(
                    [(left, None, None) for left in claimed[index:]], self._link
                )
                break
            self._run(held)
        return bool(claimed)

    def _run(self, held: Held) -> None:
        held.started = time.monotonic()
        error = self._tasks.assign(held)
        if error is None:
            with spared(self._link.alias):
                error = async_to_sync(run_async)(held) if held.handler.on_loop else run_plain(held)
        self._holdings.finished(held)
        self._settler.settle_group([(held, error, time.monotonic() - held.started)], self._link)
        with spared(self._link.alias):
            self._announcer.drain()


@contextmanager
def spared(alias: str) -> Iterator[None]:
    """Keep a handler's database error from spoiling the transaction that it shares with a test.

    What it wrote stays, as it would with a connection of its own, unless it broke the transaction.
    """
    connection: Any = connections[alias]
    if not connection.in_atomic_block:
        yield
        return
    savepoint = connection.savepoint()
    yield
    if connection.needs_rollback or not sql.dialect(connection).session_is_sound(connection):
        connection.needs_rollback = False
        connection.savepoint_rollback(savepoint)
    else:
        connection.savepoint_commit(savepoint)
