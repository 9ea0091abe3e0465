"""PostgreSQL: SKIP LOCKED, batches as arrays, everything in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import Error, transaction

from ..models import Job
from .base import NewJobs, Problem
from .bulk import BatchDialect
from .listening import CHANNEL, Session
from .moves import Move

ARRAYS = {"float": "double precision[]", "integer": "bigint[]", "text": "text[]"}
SERIALIZATION_FAILURE = "40001"
DEADLOCK = "40P01"
CONFLICTS = {SERIALIZATION_FAILURE, DEADLOCK, "55P03"}

# Locks in the order of the ids, so that two batches never wait for each other in a circle. The
# arrays are subqueries to keep their length from the planner: for a long one it would rather
# scan the table than look up its rows by their ids.
MOVE = """WITH given AS MATERIALIZED (
  SELECT batch.* FROM unnest({arrays}) AS batch({names})
  JOIN {table} AS held ON held.id = batch.given_id AND held.fence = batch.given_fence
  ORDER BY held.id FOR UPDATE OF held{skip}
) UPDATE {table} SET {sets} FROM given WHERE {table}.id = given.given_id RETURNING {table}.id"""

ASYNCHRONOUS = Problem(
    "nobroker.W004",
    "synchronous_commit is off: a crash of the server may lose jobs that were enqueued.",
    "Set it to on, for this database or in OPTIONS.",
)

NOT_READ_COMMITTED = Problem(
    "nobroker.W005",
    "OPTIONS override the isolation level READ COMMITTED: handlers that settle jobs in their own "
    "transactions may meet serialization failures.",
    'Remove "isolation_level" from OPTIONS.',
)


class PostgreSQL(BatchDialect):
    """SKIP LOCKED, batches as arrays, everything in one statement."""

    name = "PostgreSQL"
    has_notices = True
    has_local_settings = True
    now = "STATEMENT_TIMESTAMP()"
    time = "({} AT TIME ZONE 'UTC')"
    due_in = "EXTRACT(EPOCH FROM job.available_at - STATEMENT_TIMESTAMP())"
    # A subquery behind IN may be run again for each row under a cached plan, and then leases
    # more than its LIMIT; an array is computed once.
    among = "= ANY (ARRAY"
    close = ")"
    lock = " FOR UPDATE SKIP LOCKED"

    def insert_keyed(self, connection: Any, new: NewJobs) -> Job | None:
        if not connection.in_atomic_block:
            return super().insert_keyed(connection, new)
        # Above READ COMMITTED a key that a newer transaction has written is an error, and
        # would take the caller's transaction with it.
        with transaction.atomic(using=connection.alias):
            return super().insert_keyed(connection, new)

    def insert_many(self, connection: Any, new: NewJobs) -> list[int]:
        names, parts, params = self.column_values(connection, new)
        sql = (
            f"INSERT INTO {self.table(connection)} ({', '.join(['payload', *names])})"
            f" SELECT {', '.join(['batch.payload', *self._typed(names, parts)])}"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS batch(payload, position)"
            " ORDER BY batch.position RETURNING id"
        )
        with connection.cursor() as cursor:
            cursor.execute(sql, [*params, list(new.payloads)])
            return [pk for (pk,) in cursor.fetchall()]

    def move_batch(
        self, connection: Any, move: Move, rows: Sequence[Any], sets: str, params: Sequence[Any]
    ) -> set[int]:
        kinds = ["integer", "integer", *move.columns.values()]
        sql = MOVE.format(
            arrays=", ".join(f"(SELECT %s::{ARRAYS[kind]})" for kind in kinds),
            names=", ".join(f"given_{name}" for name in ("id", "fence", *move.columns)),
            table=self.table(connection),
            skip=" SKIP LOCKED" if move.skip_locked else "",
            sets=sets,
        )
        columns = map(array, kinds, zip(*move.values(rows), strict=True))
        with connection.cursor() as cursor:
            cursor.execute(sql, [*columns, *params])
            return {pk for (pk,) in cursor.fetchall()}

    def is_conflict(self, error: Error) -> bool:
        return sqlstate(error) in CONFLICTS

    def is_rollback(self, error: Error) -> bool:
        # Not 55P03: a lock that was not waited for is the statement's own choice.
        return sqlstate(error) in {SERIALIZATION_FAILURE, DEADLOCK}

    def has_one_snapshot(self, connection: Any) -> bool:
        if connection.isolation_level is not None:
            return bool(
                connection.isolation_level != connection.Database.IsolationLevel.READ_COMMITTED
            )
        level = connection.__dict__.get("_nobroker_isolation")
        if level is None:
            with connection.cursor() as cursor:
                cursor.execute("SHOW default_transaction_isolation")
                [level] = cursor.fetchone()
            connection._nobroker_isolation = level
        return bool(level != "read committed")

    def is_newer_row(self, error: Error) -> bool:
        return sqlstate(error) == SERIALIZATION_FAILURE

    def session_is_idle(self, connection: Any) -> bool:
        # 0 is IDLE in libpq, for psycopg 3 and 2 alike.
        return bool(connection.connection.info.transaction_status == 0)

    def session_is_sound(self, connection: Any) -> bool:
        # 3 is INERROR: a statement failed, and all others will until a rollback.
        return bool(connection.connection.info.transaction_status != 3)

    def notify(self, connection: Any, queues: Sequence[str]) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_notify(%s, queue) FROM unnest(%s::text[]) AS queue",
                [CHANNEL, list(queues)],
            )

    def listen(self, connection: Any) -> Session:
        return Session(connection)

    def can_listen(self, connection: Any) -> bool:
        # psycopg 3 alone: its predecessor tells notices in another way.
        return hasattr(connection.Database, "pq")

    def tune(self, schema_editor: Any) -> None:
        # Rows change state some three times in a short life: vacuum by the thousand, not by
        # the fifth of the table, and leave room on the page for the renewed lease.
        schema_editor.execute(
            f"ALTER TABLE {self.table(schema_editor.connection)} SET ("
            "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,"
            " autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.05,"
            " autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0)"
        )

    def table_bytes(self, connection: Any) -> int | None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_total_relation_size(%s)", [self.table(connection)])
            return int(cursor.fetchone()[0])

    def reclaim(self, connection: Any) -> None:
        # Not FULL, which locks the table for as long as it takes.
        with connection.cursor() as cursor:
            cursor.execute(f"VACUUM (ANALYZE) {self.table(connection)}")

    def server_problems(self, connection: Any) -> list[Problem]:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            [value] = cursor.fetchone()
            cursor.execute("SHOW transaction_isolation")
            [level] = cursor.fetchone()
        found = {ASYNCHRONOUS: value == "off", NOT_READ_COMMITTED: level != "read committed"}
        return [problem for problem, is_found in found.items() if is_found]

    def _typed(self, names: Sequence[str], parts: Sequence[str]) -> list[str]:
        """Give the parameters of a SELECT their types, which a VALUES list would infer."""
        types = {"priority": "::smallint", "max_attempts": "::smallint"}
        return [
            part + ("" if name == "available_at" else types.get(name, "::text"))
            for name, part in zip(names, parts, strict=True)
        ]


def array(kind: str, values: Sequence[Any]) -> Any:
    """Return an array as a parameter: of numbers as its text, which the driver need not build."""
    if kind == "text" and any(value is not None for value in values):
        return list(values)
    return "{" + ",".join("NULL" if value is None else repr(value) for value in values) + "}"


def sqlstate(error: Error) -> str | None:
    """Return the code of an error, by psycopg 3 or 2."""
    cause = error.__cause__
    return getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
