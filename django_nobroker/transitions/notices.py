"""Wake-ups: once jobs that are ready have been committed, workers are told in which queues.

A notice may be lost, late or needless without harm: workers look by themselves. It is sent
after the commit, never in the transaction, where PostgreSQL would make all that send one
commit one after the other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from django.db import Error, connections, transaction

from .. import conf, sql

logger = logging.getLogger("django_nobroker")

# Seconds between two notices of one process. Whoever was woken looks again for longer than that.
MOST_OFTEN = 0.005
# Stands for all of them: no queue has such a name.
EVERY_QUEUE = "*"
ATTRIBUTE = "_nobroker_notice"
_sent: dict[str, float] = {}


def announce(alias: str, queues: Iterable[str]) -> None:
    """Have workers told of queues with new jobs, as soon as these are committed."""
    connection: Any = connections[alias]
    if not (sql.dialect(connection).has_notices and conf.current().notify):
        return
    if not connection.in_atomic_block:
        if connection.get_autocommit():
            send(alias, set(queues))
        return
    if connection.atomic_blocks[0]._from_testcase:
        # Never committed, and the test may count the hooks.
        return
    notice = connection.__dict__.get(ATTRIBUTE)
    # A rolled-back savepoint takes the hooks with it that were set inside: ours may be gone.
    if notice is None or not any(hook is notice for _, hook, _ in connection.run_on_commit):
        notice = connection.__dict__[ATTRIBUTE] = _Notice(alias)
        transaction.on_commit(notice, using=alias, robust=True)
    notice.queues.update(queues)


def send(alias: str, queues: set[str]) -> None:
    """Tell workers of queues now, unless this process has told of any just before."""
    now = time.monotonic()
    if now - _sent.get(alias, -MOST_OFTEN) < MOST_OFTEN:
        return
    _sent[alias] = now
    connection = connections[alias]
    try:
        sql.dialect(connection).notify(connection, sorted(queues))
    except Error as error:
        # The jobs are committed, and will be found without it.
        logger.debug("No worker could be told of new jobs: %s", type(error).__name__)


class _Notice:
    """What is to be told once the transaction of a connection is committed."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self.queues: set[str] = set()

    def __call__(self) -> None:
        send(self._alias, self.queues)
