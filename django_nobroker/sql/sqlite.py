"""SQLite: one writer at a time, batches as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import Error

from .base import NewJobs, Problem
from .bulk import BatchDialect
from .moves import Move

MOVE = """UPDATE {table} SET {sets} FROM (
  SELECT {columns} FROM json_each(%s) ORDER BY 1
) AS given WHERE {table}.id = given.given_id AND {table}.fence = given.given_fence
RETURNING {table}.id"""

NOT_WAL = Problem(
    "nobroker.W001",
    "SQLite is not in WAL mode: readers and the worker block each other.",
    'Add "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" to OPTIONS.',
)
DEFERRED = Problem(
    "nobroker.W002",
    "SQLite transactions are deferred: two that read and then write fail with "
    "'database is locked', whatever the timeout.",
    'Add "transaction_mode": "IMMEDIATE" to OPTIONS.',
)
IMPATIENT = Problem(
    "nobroker.W003",
    "SQLite gives up a write after less than a second of waiting.",
    'Add "timeout": 30 to OPTIONS.',
)
NOT_SYNCHRONOUS = Problem(
    "nobroker.W004",
    "SQLite's synchronous is below FULL: a power cut may lose jobs that were enqueued.",
    'Add "PRAGMA synchronous=FULL;" to the init_command in OPTIONS.',
)


class SQLite(BatchDialect):
    """One writer at a time, batches as JSON."""

    name = "SQLite"
    has_single_writer = True
    has_data_version = True
    now = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"
    due_in = "(julianday(job.available_at) - julianday('now')) * 86400.0"

    def insert_many(self, connection: Any, new: NewJobs) -> list[int]:
        names, parts, params = self.column_values(connection, new)
        sql = (
            f"INSERT INTO {self.table(connection)} ({', '.join(['payload', *names])})"
            f" SELECT {', '.join(['batch.value', *parts])} FROM json_each(%s) AS batch"
            " WHERE 1 ORDER BY batch.key RETURNING id"
        )
        with connection.cursor() as cursor:
            cursor.execute(sql, [*params, json.dumps(list(new.payloads))])
            return [pk for (pk,) in cursor.fetchall()]

    def move_batch(
        self, connection: Any, move: Move, rows: Sequence[Any], sets: str, params: Sequence[Any]
    ) -> set[int]:
        columns = ", ".join(
            f"json_extract(value, '$[{index}]') AS given_{name}"
            for index, name in enumerate(("id", "fence", *move.columns))
        )
        sql = MOVE.format(table=self.table(connection), sets=sets, columns=columns)
        with connection.cursor() as cursor:
            cursor.execute(sql, [*params, json.dumps(move.values(rows))])
            return {pk for (pk,) in cursor.fetchall()}

    def is_conflict(self, error: Error) -> bool:
        return "locked" in str(error) or "busy" in str(error)

    def session_is_idle(self, connection: Any) -> bool:
        return not connection.connection.in_transaction

    def is_private(self, connection: Any) -> bool:
        return bool(connection.is_in_memory_db())

    def data_version(self, connection: Any) -> int:
        connection.ensure_connection()
        # Past Django's cursor, which would take longer than the look.
        return int(connection.connection.execute("PRAGMA data_version").fetchone()[0])

    def table_bytes(self, connection: Any) -> int | None:
        with connection.cursor() as cursor:
            pages = cursor.execute("PRAGMA page_count").fetchone()[0]
            return int(pages * cursor.execute("PRAGMA page_size").fetchone()[0])

    def reclaim(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")

    def server_problems(self, connection: Any) -> list[Problem]:
        if connection.is_in_memory_db():
            return []
        with connection.cursor() as cursor:
            pragma = {
                name: cursor.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "busy_timeout")
            }
        options = connection.settings_dict.get("OPTIONS", {})
        found = {
            NOT_WAL: pragma["journal_mode"] != "wal",
            DEFERRED: options.get("transaction_mode") not in {"IMMEDIATE", "EXCLUSIVE"},
            IMPATIENT: pragma["busy_timeout"] < 1000,
            NOT_SYNCHRONOUS: pragma["synchronous"] < 2,
        }
        return [problem for problem, is_found in found.items() if is_found]
