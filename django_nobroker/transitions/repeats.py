"""Work that is repeated when it loses against another transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import Error, connections

from .. import sql

Result = TypeVar("Result")
TRIES = 10


def repeated(alias: str, work: Callable[[], Result]) -> Result:
    """Return `work()`, repeated after a deadlock or a serialization failure.

    Inside the caller's transaction it is not repeated: that transaction is the caller's to repeat.
    """
    connection = connections[alias]
    for attempt in range(1, TRIES):
        if connection.in_atomic_block:
            break
        try:
            return work()
        except Error as error:
            if not sql.dialect(connection).is_conflict(error):
                raise
        time.sleep(random.random() * 0.01 * attempt)
    return work()
