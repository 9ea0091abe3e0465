"""The connections that handlers use: kept between jobs, and clean for the next one.

A handler may leave a transaction open, turn autocommit off, change its session's settings or
break its connection. What it left behind is rolled back with the connection it was left on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db import connections

from .. import sql
from . import link
from .link import discard

# Seconds without use after which a connection is tried before a handler gets it.
IDLE = 1.0
# Statements that leave a session as they found it. Any other first word (SET, BEGIN, LOCK,
# PRAGMA, CREATE TEMP ...) costs the handler's connection at the end of its job.
HARMLESS = (
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "WITH",
    "SAVEPOINT",
    "RELEASE",
    "ROLLBACK TO",
    "EXPLAIN",
    "MERGE",
    "VALUES",
    "REPLACE",
)
# These end with the transaction: in one, and where they are not meant for the session or for the
# transaction after this.
LOCAL = ("SET LOCAL", "SET TRANSACTION", "SET CONSTRAINTS")
LASTING = ("SET_CONFIG", "ADVISORY_LOCK", "GET_LOCK")


class Sessions:
    """The handlers' connections of one thread."""

    def __init__(self) -> None:
        self._watches: dict[str, _Watch] = {}
        self._last_used = time.monotonic()
        self._breaks_seen = link.breaks()
        for alias in connections:
            self._watch(alias)

    def before_job(self) -> None:
        """Drop connections that died while they were idle, or with one of the worker's own."""
        breaks = link.breaks()
        if time.monotonic() - self._last_used < IDLE and breaks == self._breaks_seen:
            return
        self._breaks_seen = breaks
        for connection in self._open():
            if not connection.is_usable():
                self._replace(connection.alias)

    def after_job(self) -> None:
        """Roll back and close what a handler did not leave as it found it."""
        self._last_used = time.monotonic()
        for connection in self._open():
            if self._is_dirty(connection) or not is_clean(connection):
                self._replace(connection.alias)
            elif connection.queries_logged:
                connection.queries_log.clear()

    def close(self) -> None:
        """Close all of them."""
        for connection in self._open():
            discard(connection.alias)

    def _open(self) -> list[Any]:
        return [
            connection
            for connection in connections.all(initialized_only=True)
            if connection.connection is not None or connection.in_atomic_block
        ]

    def _is_dirty(self, connection: Any) -> bool:
        watch = self._watches.get(connection.alias)
        # A handler that put another wrapper in the place of the watched one is not trusted.
        return watch is None or watch not in connection.execute_wrappers or watch.dirty

    def _replace(self, alias: str) -> None:
        discard(alias)
        self._watch(alias)

    def _watch(self, alias: str) -> None:
        watch = self._watches[alias] = _Watch()
        connection: Any = connections[alias]
        connection.execute_wrappers.append(watch)
        connect = connection.connect

        def connect_and_forget() -> None:
            connect()
            # What Django and the project set up for a new session is not the handler's doing.
            watch.dirty = False

        connection.connect = connect_and_forget


class _Watch:
    """An execute wrapper that notices statements which change the session."""

    __slots__ = ("dirty",)

    def __init__(self) -> None:
        self.dirty = False

    def __call__(
        self, execute: Callable[..., Any], statement: Any, params: Any, many: bool, context: Any
    ) -> Any:
        if not self.dirty:
            connection = context["connection"]
            is_local = connection.in_atomic_block and sql.dialect(connection).has_local_settings
            self.dirty = changes_session(str(statement), is_local=is_local)
        return execute(statement, params, many, context)


def changes_session(statement: str, *, is_local: bool = False) -> bool:
    """Return whether a statement leaves its session other than it was, as far as its text tells.

    `is_local`: whether settings can be made for the transaction alone, and there is one.
    """
    text = statement.strip(" \t\r\n(;").upper()
    harmless = (*HARMLESS, *LOCAL) if is_local else HARMLESS
    # What comes after a semicolon is a statement of its own.
    return not text.startswith(harmless) or ";" in text or any(word in text for word in LASTING)


def is_clean(connection: Any) -> bool:
    """Return whether a connection is outside any transaction and has not failed."""
    try:
        return (
            connection.connection is not None
            and not connection.in_atomic_block
            and not connection.needs_rollback
            and not connection.errors_occurred
            and connection.autocommit == connection.settings_dict["AUTOCOMMIT"]
            and sql.dialect(connection).session_is_idle(connection)
        )
    except Exception:
        # A driver's session that cannot even be asked, such as one that was closed beneath Django.
        return False
