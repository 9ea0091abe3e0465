"""LISTEN on PostgreSQL, on a session of its own: it takes no slot of a pool."""

from __future__ import annotations

import select
import time
from typing import Any

CHANNEL = "nobroker"
# Seconds after which a session that says nothing is asked whether it is still there.
SILENCE = 30.0


class Session:
    """A session that listens, by psycopg 3. Raises Django's database errors when it breaks."""

    def __init__(self, connection: Any) -> None:
        self._errors = connection.wrap_database_errors
        with self._errors:
            params = {**connection.get_connection_params(), "autocommit": True}
            # Made by Django for its own wrapper.
            params.pop("cursor_factory", None)
            self._session = connection.Database.connect(**params)
            self._session.execute(f"LISTEN {CHANNEL}")
        self._poll = select.poll()
        self._poll.register(self._session.fileno(), select.POLLIN)
        self._asked = time.monotonic()

    def wait(self, seconds: float) -> list[str]:
        """Return what has been told, as soon as anything is; nothing after so many seconds."""
        with self._errors:
            found = self._told()
            if not found and self._poll.poll(seconds * 1000):
                # Raises if it is the end of the session that can be read.
                self._session.pgconn.consume_input()
                found = self._told()
            if time.monotonic() - self._asked > SILENCE:
                self._asked = time.monotonic()
                self._session.execute("SELECT 1")
        return found

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _told(self) -> list[str]:
        found = []
        while (notice := self._session.pgconn.notifies()) is not None:
            found.append(notice.extra.decode(errors="replace"))
        return found
