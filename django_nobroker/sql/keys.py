"""Keys of jobs on MySQL, where two that insert the same one can be each other's deadlock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .base import NewJobs

# Seconds to wait for another connection that inserts the same key; then it is tried all the same.
KEY_LOCK_TIMEOUT = 10


@contextmanager
def one_at_a_time(connection: Any, new: NewJobs) -> Iterator[None]:
    """Let only one connection at a time insert a key.

    Two that insert one key just when it is deleted each get a lock on the gap, and then wait for
    the other's: a deadlock, which would take the caller's transaction with it.
    """
    name = f"{connection.settings_dict['NAME']}.{new.columns['queue']}.{new.columns['job_id']}"
    lock = f"nobroker.{hashlib.sha256(name.encode()).hexdigest()[:40]}"
    connection.ensure_connection()
    session = connection.connection
    with connection.wrap_database_errors:
        _ask(session, "SELECT GET_LOCK(%s, %s)", [lock, KEY_LOCK_TIMEOUT])
    try:
        yield
    finally:
        # A session that is gone has let go of its locks, and its error must not hide the first.
        with suppress(Exception):
            _ask(session, "SELECT RELEASE_LOCK(%s)", [lock])


def _ask(session: Any, statement: str, params: list[Any]) -> None:
    """Run a statement on the driver's own cursor.

    Django's would refuse it in a transaction that a deadlock has broken, and a worker would take
    the lock for a change that a handler left in its session.
    """
    cursor = session.cursor()
    try:
        cursor.execute(statement, params)
        cursor.fetchone()
    finally:
        cursor.close()
