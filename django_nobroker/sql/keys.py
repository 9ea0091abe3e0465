"""Keys of jobs on MySQL, where two that insert the same one can be each other's deadlock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
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
    with connection.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, %s)", [lock, KEY_LOCK_TIMEOUT])
        cursor.fetchone()
        try:
            yield
        finally:
            cursor.execute("SELECT RELEASE_LOCK(%s)", [lock])
            cursor.fetchone()
