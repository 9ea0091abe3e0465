"""What the three tested databases share: batches in one statement, keyed by id and fence.

A state stands in these statements as a literal: as a parameter it could not use a partial index.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from ..models import Job
from .base import Claim, Dialect, Lane, NewJobs
from .moves import GivenColumn, GivenParameter, Move, assignments, compile_expression, filled
from .rows import LEASED, instance, layout, read, values_of

DEFAULTS: dict[str, Any] = {
    "task": "",
    "backend": "",
    "state": "ready",
    "priority": 0,
    "attempts": 0,
    "fence": 0,
    "lease_losses": 0,
    "snoozes": 0,
    "leased_by": "",
    "leased_at": None,
    "lease_expires_at": None,
    "started_at": None,
    "job_id": None,
    "subject": None,
    "error_class": "",
    "last_error": None,
    "progress": None,
    "progress_note": "",
    "result": None,
    "finished_at": None,
}

# From the first ready job of a lane straight to the first of the next lane: one step in the
# lane index for each lane, however many jobs are in it. As scalar subqueries, since SQLite has
# no LATERAL.
LANES = """
WITH RECURSIVE head(id) AS (
  {seeds}
  UNION ALL
  SELECT (
    SELECT ahead.id FROM {table} AS ahead WHERE ahead.state = 'ready' AND {step}
    ORDER BY ahead.queue, ahead.priority, ahead.lease_losses, ahead.available_at, ahead.id LIMIT 1
  )
  FROM head JOIN {table} AS here ON here.id = head.id
)
SELECT job.queue, job.priority, job.lease_losses, {due_in}, job.id
FROM head JOIN {table} AS job ON job.id = head.id
"""
EVERY_SEED = """SELECT (SELECT id FROM {table} WHERE state = 'ready'
  ORDER BY queue, priority, lease_losses, available_at, id LIMIT 1)"""
EVERY_STEP = """(ahead.queue, ahead.priority, ahead.lease_losses)
  > (here.queue, here.priority, here.lease_losses)"""
NAMED_SEED = """SELECT (SELECT id FROM {table} WHERE state = 'ready' AND queue = asked.column1
  ORDER BY priority, lease_losses, available_at, id LIMIT 1) FROM (VALUES {names}) AS asked"""
NAMED_STEP = """ahead.queue = here.queue
  AND (ahead.priority, ahead.lease_losses) > (here.priority, here.lease_losses)"""

LEASE = """UPDATE {table} SET {sets} WHERE id {among} (
  SELECT id FROM {table} WHERE state = 'ready' AND queue = %s AND priority = %s
  AND lease_losses = %s AND available_at <= {now}{kinds}
  ORDER BY available_at, id LIMIT %s{lock}){close} RETURNING {columns}"""


class BatchDialect(Dialect):
    """One statement for many rows. The databases fill in the words that differ."""

    now = "?"
    # A column of a time, given in UTC and without a zone.
    time = "{}"
    # Seconds from now until job.available_at.
    due_in = "?"
    # How the ids of a subquery are compared, and how its rows are locked.
    among = "IN"
    close = ""
    lock = ""

    def insert(self, connection: Any, new: NewJobs) -> list[Job]:
        if len(new.payloads) == 1:
            returned = self._insert_row(connection, new, "")
            return [self._job(connection, new, new.payloads[0], returned)]
        ids = self.insert_many(connection, new)
        return [
            self._job(connection, new, text, (pk,))
            for pk, text in zip(sorted(ids), new.payloads, strict=True)
        ]

    def insert_keyed(self, connection: Any, new: NewJobs) -> Job | None:
        clause = " ON CONFLICT (queue, job_id) WHERE job_id IS NOT NULL DO NOTHING"
        returned = self._insert_row(connection, new, clause)
        return self._job(connection, new, new.payloads[0], returned) if returned else None

    def insert_many(self, connection: Any, new: NewJobs) -> list[int]:
        """Insert one row for each payload; return their ids, in any order."""
        raise NotImplementedError

    def lanes(self, connection: Any, queues: Sequence[str] | None = None) -> list[Lane]:
        if queues is not None and not queues:
            return []
        names = ", ".join(["(%s)"] * len(queues or ()))
        table = self.table(connection)
        sql = LANES.format(
            table=table,
            seeds=(NAMED_SEED if queues else EVERY_SEED).format(table=table, names=names),
            step=NAMED_STEP if queues else EVERY_STEP,
            due_in=self.due_in,
        )
        return self.read_lanes(connection, sql, list(queues or ()))

    def read_lanes(self, connection: Any, sql: str, params: list[Any]) -> list[Lane]:
        """Run a query for (queue, priority, lost leases, seconds until due, head)."""
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return [
                Lane(queue, priority, losses, float(due_in), head)
                for queue, priority, losses, due_in, head in cursor.fetchall()
            ]

    def lease(self, connection: Any, claim: Claim, move: Move) -> list[Job]:
        set_sql, set_params = assignments(connection.alias, move, GivenParameter)
        columns = layout(connection.alias, LEASED, self.time)
        lane = claim.lane
        sql = LEASE.format(
            table=self.table(connection),
            sets=set_sql,
            now=self.now,
            kinds=self.kinds(claim),
            among=self.among,
            lock=self.lock,
            close=self.close,
            columns=columns.select,
        )
        where = [lane.queue, lane.priority, lane.lease_losses, claim.count]
        with connection.cursor() as cursor:
            cursor.execute(sql, [*filled(set_params, claim.given), *where])
            rows = sorted(cursor.fetchall(), key=IN_LANE)
        return read(connection.alias, columns, rows)

    def kinds(self, claim: Claim) -> str:
        """Return the condition that leaves out what this worker could not run."""
        return ("" if claim.payloads else " AND task <> ''") + (
            "" if claim.tasks else " AND task = ''"
        )

    def move(self, connection: Any, move: Move, rows: Sequence[Any]) -> set[int]:
        if not rows:
            return set()
        set_sql, set_params = assignments(connection.alias, move, GivenColumn)
        return self.move_batch(connection, move, rows, set_sql, set_params)

    def move_batch(
        self, connection: Any, move: Move, rows: Sequence[Any], sets: str, params: Sequence[Any]
    ) -> set[int]:
        """Apply compiled assignments to the rows; return the ids of those changed."""
        raise NotImplementedError

    def table(self, connection: Any) -> str:
        """Return the quoted name of the job table."""
        return str(connection.ops.quote_name(Job._meta.db_table))

    def column_values(
        self, connection: Any, new: NewJobs
    ) -> tuple[list[str], list[str], list[Any]]:
        """Return names, SQL and parameters of the columns that all the new jobs share."""
        names, parts, params = [], [], []
        for name, value in new.columns.items():
            if value != DEFAULTS.get(name, value is None):
                names.append(name)
                parts.append("%s")
                params.append(value)
        if new.available_at is not None:
            sql, given = compile_expression(connection, new.available_at)
            names.append("available_at")
            parts.append(sql)
            params.extend(given)
        return names, parts, params

    def _insert_row(self, connection: Any, new: NewJobs, clause: str) -> Any:
        names, parts, params = self.column_values(connection, new)
        returning = layout(connection.alias, RETURNED, self.time).select
        sql = (
            f"INSERT INTO {self.table(connection)} ({', '.join(['payload', *names])})"
            f" VALUES ({', '.join(['%s', *parts])}){clause} RETURNING {returning}"
        )
        with connection.cursor() as cursor:
            cursor.execute(sql, [new.payloads[0], *params])
            return cursor.fetchone()

    def _job(self, connection: Any, new: NewJobs, text: str, returned: Sequence[Any]) -> Job:
        if len(returned) > 1:
            values = values_of(layout(connection.alias, RETURNED, self.time), returned)
        else:
            values = {"id": returned[0]}
        return instance(
            connection.alias, {**DEFAULTS, **new.columns, **values, "payload_text": text}
        )


# The order of a lane, among rows as they come.
IN_LANE = itemgetter(LEASED.index("available_at"), LEASED.index("id"))
RETURNED = ("id", "available_at", "created_at")
