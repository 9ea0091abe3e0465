"""A worker thread's own connection to the database: kept open, and healed when it breaks."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from django.db import DataError, Error, IntegrityError, connections
from django.db.utils import NotSupportedError

from .. import sql

logger = logging.getLogger("django_nobroker")
Result = TypeVar("Result")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
CONFLICT_TRIES = 20
# Seconds after which a conflict is an outage: SQLite waits for its lock that long in each try.
CONFLICT_FOR = 10.0
# Errors of the statement, which another connection would not mend.
STATEMENT_ERRORS = (IntegrityError, DataError, NotSupportedError)
# On SQLite the parts of a worker take turns, instead of waiting in the busy handler's sleeps.
_turns = threading.RLock()
_breaks = itertools.count()
_last_break = 0


def breaks() -> int:
    """Return a number that changes whenever a connection of the worker's own has broken."""
    return _last_break


def turn(alias: str) -> AbstractContextManager[object]:
    """Return what lets one part at a time write, where the database itself lets only one."""
    return _turns if sql.dialect(connections[alias]).has_single_writer else nullcontext()


class Unreachable(Exception):
    """The database could not be used just now; the connection has been dropped."""


class Link:
    """Runs the database work of one part of a worker on this thread's connection."""

    def __init__(self, alias: str, part: str) -> None:
        self.alias = alias
        self.part = part
        self._pause = 0.0
        self._down_since: float | None = None

    def run(self, work: Callable[[], Result]) -> Result:
        """Return `work()`; repeat it when it lost against another transaction.

        Raises Unreachable, after dropping the connection, when the database is not to be used;
        errors of the statement itself pass through.
        """
        until = time.monotonic() + CONFLICT_FOR
        for attempt in range(1, CONFLICT_TRIES + 1):
            try:
                result = self._once(work)
            except STATEMENT_ERRORS:
                raise
            except Error as error:
                if connections[self.alias].in_atomic_block:
                    # A test's own transaction: not ours to repeat or to drop.
                    raise
                may_repeat = attempt < CONFLICT_TRIES and time.monotonic() < until
                if may_repeat and self._is_conflict(error):
                    # Jitter between rivals; nothing secret hangs on it.
                    time.sleep(random.random() * 0.005 * attempt)
                    continue
                self._drop(error)
                raise Unreachable(str(error)) from error
            self._up()
            return result
        raise AssertionError("the last attempt returns or raises")

    def takes(self, work: Callable[[], Result]) -> bool:
        """Return whether the database does this now; says nothing of it, whichever it is."""
        try:
            self._once(work)
        except Error:
            discard(self.alias)
            return False
        return True

    @property
    def pause(self) -> float:
        """Seconds to wait before the next try: longer with each failure, up to 5."""
        return self._pause * (0.5 + random.random() / 2)

    @property
    def is_down(self) -> bool:
        """Whether the last try failed."""
        return self._down_since is not None

    def close(self) -> None:
        """Close this thread's connection, unless it is in a transaction of the caller's."""
        connection = connections[self.alias]
        if not connection.in_atomic_block:
            connection.close()

    def _once(self, work: Callable[[], Result]) -> Result:
        connection = connections[self.alias]
        if connection.queries_logged:
            # With DEBUG on, Django keeps every statement until a request ends.
            connection.queries_log.clear()
        # Some errors of a driver reach us through Django's own code unwrapped.
        with turn(self.alias), connection.wrap_database_errors:
            return work()

    def _is_conflict(self, error: Error) -> bool:
        return sql.dialect(connections[self.alias]).is_conflict(error)

    def _drop(self, error: Exception) -> None:
        global _last_break
        _last_break = next(_breaks) + 1
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))
        if self._down_since is None:
            self._down_since = time.monotonic()
            logger.warning(
                "The %s cannot use the database %r: %s. It tries again until it can.",
                self.part,
                self.alias,
                str(error).strip() or type(error).__name__,
            )
        discard(self.alias)

    def _up(self) -> None:
        if self._down_since is not None:
            logger.warning(
                "The %s uses the database %r again, after %.1f s.",
                self.part,
                self.alias,
                time.monotonic() - self._down_since,
            )
        self._pause = 0.0
        self._down_since = None


def discard(alias: str) -> None:
    """Drop this thread's connection whatever state it is in; the next use opens a new one."""
    connection: Any = connections[alias]
    try:
        if connection.connection is not None:
            # The driver's own first: a pool would keep the session for somebody else.
            connection.connection.close()
    except Exception:
        logger.debug("The driver could not close a connection of %r.", alias)
    try:
        connection.close()
    except Exception:
        # Broken beyond closing.
        connection.connection = None
    del connections[alias]
