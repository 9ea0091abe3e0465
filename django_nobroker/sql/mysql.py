"""MySQL and MariaDB: no RETURNING from UPDATE, READ COMMITTED for every claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import Error, IntegrityError, transaction

from ..exceptions import SerializationError
from ..models import Job
from .base import Claim, Lane, NewJobs, Problem
from .keys import one_at_a_time
from .moves import GivenParameter, Move, assignments, filled
from .mysql_chosen import ChosenByPrimaryKey, is_read_committed
from .mysql_statements import AMEND, CANDIDATES, LANES, MOVE
from .packets import SMALL, escaped_size, packets, parts, row_size
from .rows import LEASED, future_columns, layout, read

NEWER_ROW = 1020
CONFLICTS = {NEWER_ROW, 1205, 1213}
DUPLICATE_KEY = 1062
KINDS = {"float": "DOUBLE", "integer": "BIGINT", "text": "LONGTEXT CHARACTER SET utf8mb4"}

LAZY_FLUSH = Problem(
    "nobroker.W004",
    "innodb_flush_log_at_trx_commit is not 1: a crash may lose jobs that were enqueued.",
    "Set it to 1 in the server's configuration.",
)
NOT_READ_COMMITTED = Problem(
    "nobroker.W005",
    "OPTIONS override Django's isolation level of READ COMMITTED: handlers that settle jobs in "
    "their own transactions may meet deadlocks.",
    'Remove "isolation_level" from OPTIONS, or set it to "read committed".',
)


class _SomeLost(Exception):
    """Not all rows of a batch were still held."""


class MySQL(ChosenByPrimaryKey):
    """No RETURNING from UPDATE, READ COMMITTED for every claim."""

    name = "MySQL"
    lively_interval = 0.02
    # As text: the driver takes longer over a datetime than over all the rest of a row.
    time = "CAST({} AS CHAR)"

    def insert_keyed(self, connection: Any, new: NewJobs) -> Job | None:
        # A look first: an INSERT that fails leaves a lock on the gap before the key, and two
        # transactions that hold such a lock are a deadlock in the making.
        if self.is_taken(connection, new):
            return None
        try:
            with one_at_a_time(connection, new), transaction.atomic(using=connection.alias):
                [job] = self.insert(connection, new)
                return job
        except IntegrityError as error:
            if error.args[0] != DUPLICATE_KEY:
                raise
            return None

    def insert(self, connection: Any, new: NewJobs) -> list[Job]:
        largest = max(new.payloads, key=escaped_size)
        self._refuse(connection, largest, f"A payload for queue {new.columns['queue']}")
        return super().insert(connection, new)

    def refuse_large(self, connection: Any, text: str, what: str) -> None:
        # It goes into a statement as part of a JSON array.
        self._refuse(connection, json.dumps(text), what)

    def move(self, connection: Any, move: Move, rows: Sequence[Any]) -> set[int]:
        # Texts such as results may be of any size: no more of them to a statement than fits.
        moved: set[int] = set()
        for part in parts(rows, [row_size(move, row) for row in rows], SMALL):
            moved |= super().move(connection, move, part)
        return moved

    def _refuse(self, connection: Any, text: str, what: str) -> None:
        size = escaped_size(text)
        if size > SMALL and size > (limit := self._packet(connection)):
            raise SerializationError(
                f"{what} of {size:,} bytes does not fit into the server's max_allowed_packet of "
                f"{limit:,} bytes: raise it, or keep large data elsewhere and its key here."
            )

    def insert_many(self, connection: Any, new: NewJobs) -> list[int]:
        names, parts, params = self.column_values(connection, new)
        head = f"INSERT INTO {self.table(connection)} ({', '.join(['payload', *names])}) VALUES "
        row = f"({', '.join(['%s', *parts])})"
        ids: list[int] = []
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            for texts in packets(new.payloads, SMALL):
                values = [value for text in texts for value in (text, *params)]
                sql = head + ", ".join([row] * len(texts))
                ids.extend(self._ids(connection, cursor, sql, values, len(texts)))
        return ids

    def lanes(self, connection: Any, queues: Sequence[str] | None = None) -> list[Lane]:
        if queues is not None and not queues:
            return []
        named = f" AND queue IN ({', '.join(['%s'] * len(queues))})" if queues else ""
        sql = LANES.format(table=self.table(connection), named=named)
        return self.read_lanes(connection, sql, list(queues or ()))

    def lease(self, connection: Any, claim: Claim, move: Move) -> list[Job]:
        lane, alias = claim.lane, connection.alias
        table = self.table(connection)
        columns, column_params = future_columns(alias, LEASED, self.time, move)
        sql = CANDIDATES.format(table=table, columns=columns, kinds=self.kinds(claim))
        where = [lane.queue, lane.priority, lane.lease_losses, claim.count]
        with self.read_committed(connection), connection.cursor() as cursor:
            cursor.execute(sql, [*filled(column_params, claim.given), *where])
            jobs = read(alias, layout(alias, LEASED, self.time), cursor.fetchall())
            if jobs:
                sets, params = assignments(alias, move, GivenParameter)
                ids = ", ".join(str(job.id) for job in jobs)
                amend = AMEND.format(table=table, sets=sets, ids=ids)
                cursor.execute(amend, filled(params, claim.given))
            return jobs

    def move_batch(
        self, connection: Any, move: Move, rows: Sequence[Any], sets: str, params: Sequence[Any]
    ) -> set[int]:
        rows = sorted(rows, key=lambda row: row["id"])
        if not move.skip_locked:
            try:
                with self.read_committed(connection):
                    if self._update(connection, move, rows, sets, params) < len(rows):
                        raise _SomeLost
                return {row["id"] for row in rows}
            except _SomeLost:
                # The count does not say which: undone, and done again for those still held.
                pass
        with self.read_committed(connection):
            ids = [row["id"] for row in rows]
            fences = self.lock_jobs(connection, ids, skip_locked=move.skip_locked)
            rows = [row for row in rows if fences.get(row["id"]) == row["fence"]]
            self._update(connection, move, rows, sets, params)
        return {row["id"] for row in rows}

    def is_conflict(self, error: Error) -> bool:
        return bool(error.args) and error.args[0] in CONFLICTS

    def table_bytes(self, connection: Any) -> int | None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT data_length + index_length FROM information_schema.tables"
                " WHERE table_schema = DATABASE() AND table_name = %s",
                [Job._meta.db_table],
            )
            return int(cursor.fetchone()[0])

    def reclaim(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"OPTIMIZE TABLE {self.table(connection)}")
            cursor.fetchall()

    def is_newer_row(self, error: Error) -> bool:
        return bool(error.args) and error.args[0] == NEWER_ROW

    def session_is_idle(self, connection: Any) -> bool:
        # The driver does not tell whether a transaction is open; a closed session it does.
        return bool(connection.connection.open)

    def server_problems(self, connection: Any) -> list[Problem]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@innodb_flush_log_at_trx_commit")
            [flush] = cursor.fetchone()
        found = {LAZY_FLUSH: flush != 1, NOT_READ_COMMITTED: not is_read_committed(connection)}
        return [problem for problem, is_found in found.items() if is_found]

    def _insert_row(self, connection: Any, new: NewJobs, clause: str) -> Any:
        if connection.features.can_return_columns_from_insert:
            return super()._insert_row(connection, new, clause)
        return self.insert_many(connection, new)

    def _ids(
        self, connection: Any, cursor: Any, sql: str, values: list[Any], count: int
    ) -> list[int]:
        """Insert, and return the ids: as the server tells them, or counted from the first.

        InnoDB gives the rows of one INSERT ... VALUES consecutive numbers in every
        innodb_autoinc_lock_mode: MySQL manual, "AUTO_INCREMENT Handling in InnoDB".
        """
        if connection.features.can_return_rows_from_bulk_insert:
            cursor.execute(f"{sql} RETURNING id", values)
            return [pk for (pk,) in cursor.fetchall()]
        cursor.execute(sql, values)
        first = cursor.lastrowid
        if count == 1:
            return [first]
        cursor.execute("SELECT @@auto_increment_increment")
        [step] = cursor.fetchone()
        return [first + index * step for index in range(count)]

    def _update(
        self, connection: Any, move: Move, rows: Sequence[Any], sets: str, params: Sequence[Any]
    ) -> int:
        kinds = {"id": "integer", "fence": "integer", **move.columns}
        columns = ", ".join(
            f"given_{name} {KINDS[kind]} PATH '$[{index}]'"
            for index, (name, kind) in enumerate(kinds.items())
        )
        if not rows:
            return 0
        sql = MOVE.format(columns=columns, table=self.table(connection), sets=sets)
        with connection.cursor() as cursor:
            cursor.execute(sql, [json.dumps(move.values(rows), ensure_ascii=False), *params])
            return int(cursor.rowcount)

    def _packet(self, connection: Any) -> int:
        """Return the largest statement in bytes that the server takes, less some for its words."""
        found = connection.__dict__.get("_nobroker_packet")
        if found is None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@max_allowed_packet")
                found = connection._nobroker_packet = cursor.fetchone()[0] - 16 * 1024
        return int(found)
