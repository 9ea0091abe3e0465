"""Wakes a worker when it is told of new jobs, or sees that its database has changed.

Only ever sooner than it would look by itself: what is told may be lost without harm, and a
lost session is replaced.
"""

from __future__ import annotations

import logging
import random
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import Error, connections

from .. import sql
from ..transitions import EVERY_QUEUE
from .link import discard

logger = logging.getLogger("django_nobroker")

# Seconds of one wait, and so until a stop is noticed.
NAP = 0.5
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
# Seconds that a notice of our own is given to come through, and until it is tried again.
PROOF_FOR = 2.0
PROVE_AGAIN = 60.0
# Seconds by which each other worker that is up may let a notice rest: one of them is the first,
# and the others find that the job is gone.
STAGGER = 0.0005
LONGEST_STAGGER = 0.025
# Seconds between two looks at whether the database file has changed: while there has been work
# within the last seconds, and after that.
LOOK_EVERY = 0.003
LOOK_SELDOM = 0.01


class Listener:
    """Hears notices of PostgreSQL's NOTIFY."""

    def __init__(
        self,
        alias: str,
        serves: Callable[[str], bool],
        peers: Callable[[], int],
        woken: Callable[[], None],
    ) -> None:
        self._alias = alias
        self._serves = serves
        self._peers = peers
        self._woken = woken
        self._stopped = threading.Event()
        self._pause = 0.0
        self._is_lost = False

    def stop(self) -> None:
        """End within half a second."""
        self._stopped.set()

    def run(self) -> None:
        """The loop: listen until the session breaks; replace it, later after each failure."""
        while not self._stopped.is_set():
            try:
                self._listen()
            except Error as error:
                self._lose(error)
                self._stopped.wait(self._pause * random.uniform(0.5, 1.0))

    def _listen(self) -> None:
        session = sql.dialect(connections[self._alias]).listen(connections[self._alias])
        try:
            if not self._is_proven(session):
                logger.warning(
                    "Notices of the database %r do not come through: the worker looks for jobs "
                    "by itself. PgBouncer in transaction mode does that; see NOTIFY.",
                    self._alias,
                )
                self._stopped.wait(PROVE_AGAIN)
                return
            self._found()
            while not self._stopped.is_set():
                self._hear(session.wait(NAP))
        finally:
            session.close()

    def _hear(self, told: list[str]) -> None:
        if any(queue == EVERY_QUEUE or self._serves(queue) for queue in told):
            stagger = min(STAGGER * (self._peers() - 1), LONGEST_STAGGER)
            if stagger > 0:
                time.sleep(random.uniform(0.0, stagger))
            self._woken()

    def _is_proven(self, session: Any) -> bool:
        """Return whether a notice comes through, sent on a connection like any other."""
        # No queue has such a name.
        token = f"?{secrets.token_hex(8)}"
        connection = connections[self._alias]
        try:
            sql.dialect(connection).notify(connection, [token])
        finally:
            discard(self._alias)
        until = time.monotonic() + PROOF_FOR
        while time.monotonic() < until and not self._stopped.is_set():
            if token in session.wait(PROOF_FOR / 10):
                return True
        return self._stopped.is_set()

    def _lose(self, error: Error) -> None:
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, self._pause * 2))
        if not self._is_lost:
            self._is_lost = True
            logger.warning(
                "The listener lost the database %r: %s. Until it is back, the worker looks for "
                "jobs by itself.",
                self._alias,
                str(error).strip() or type(error).__name__,
            )

    def _found(self) -> None:
        self._pause = 0.0
        if self._is_lost:
            self._is_lost = False
            logger.warning("The listener is back at the database %r.", self._alias)
        # What was told meanwhile was not heard.
        self._woken()


class Watcher:
    """Sees that another connection has committed to a database file."""

    def __init__(
        self, alias: str, is_lively: Callable[[], bool], woken: Callable[[], None]
    ) -> None:
        self._alias = alias
        self._is_lively = is_lively
        self._woken = woken
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End at the next look."""
        self._stopped.set()

    def run(self) -> None:
        """The loop. A look that fails is repeated on a new connection, after a while."""
        seen = None
        while not self._stopped.wait(LOOK_EVERY if self._is_lively() else LOOK_SELDOM):
            connection = connections[self._alias]
            try:
                version = sql.dialect(connection).data_version(connection)
            except Error:
                discard(self._alias)
                seen = None
                self._stopped.wait(LONGEST_PAUSE)
                continue
            if version != seen:
                if seen is not None:
                    self._woken()
                seen = version
        discard(self._alias)
