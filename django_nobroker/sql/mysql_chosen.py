"""Rows chosen by their ids on MySQL and MariaDB, whose statements are told to go by the ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connections, transaction

from ..models import Attempt, JobQuerySet
from .bulk import BatchDialect
from .chosen import Work
from .moves import compile_assignments
from .mysql_statements import AMEND, FORGET, LOCK


class ChosenByPrimaryKey(BatchDialect):
    """Every statement says that it goes by the primary key, and locks nothing on its way."""

    def change_held(
        self, jobs: JobQuerySet, ids: Sequence[int], work: Work, *, skip_locked: bool = False
    ) -> int:
        connection = connections[jobs.db]
        # The caller's own snapshot may be older than the rows are.
        is_old = connection.in_atomic_block and self.has_one_snapshot(connection)
        with self.read_committed(connection):
            locked = self.lock_jobs(connection, ids, skip_locked=skip_locked)
            held = jobs.filter(pk__in=locked.keys()).order_by("pk")
            if is_old:
                held = held.select_for_update()
            return work(list(held.values_list("pk", flat=True)))

    def amend(self, jobs: JobQuerySet, ids: Sequence[int], values: dict[str, Any]) -> int:
        connection = connections[jobs.db]
        sets, params = compile_assignments(connection, values)
        return self._run(connection, AMEND, ids, params, table=self.table(connection), sets=sets)

    def forget(self, jobs: JobQuerySet, ids: Sequence[int]) -> int:
        connection = connections[jobs.db]
        attempts = Attempt.objects.using(jobs.db).filter(job__in=list(ids))
        attempts_table = connection.ops.quote_name(Attempt._meta.db_table)
        gone = attempts.values_list("pk", flat=True)
        self._run(connection, FORGET, gone, table=attempts_table)
        return self._run(connection, FORGET, ids, table=self.table(connection))

    def lock_jobs(
        self, connection: Any, ids: Iterable[int], *, skip_locked: bool = False
    ) -> dict[int, int]:
        listed = _listed(ids)
        if not listed:
            return {}
        skip = " SKIP LOCKED" if skip_locked else ""
        with connection.cursor() as cursor:
            cursor.execute(LOCK.format(table=self.table(connection), ids=listed, skip=skip))
            return dict(cursor.fetchall())

    def read_committed(self, connection: Any) -> Any:
        """Return a transaction that locks only the rows it takes.

        Under REPEATABLE READ a claim locks the gaps between its rows as well, and blocks
        every INSERT into the lane.
        """
        if not is_read_committed(connection) and not connection.in_atomic_block:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return transaction.atomic(using=connection.alias)

    def has_one_snapshot(self, connection: Any) -> bool:
        return not is_read_committed(connection)

    def _run(
        self,
        connection: Any,
        statement: str,
        ids: Iterable[int],
        params: Sequence[Any] = (),
        **words: str,
    ) -> int:
        listed = _listed(ids)
        if not listed:
            return 0
        with connection.cursor() as cursor:
            cursor.execute(statement.format(ids=listed, **words), params)
            return int(cursor.rowcount)


def is_read_committed(connection: Any) -> bool:
    """Return whether the transactions of a connection are READ COMMITTED, as Django has them."""
    options = connection.settings_dict["OPTIONS"]
    return str(options.get("isolation_level", "read committed")).lower() == "read committed"


def _listed(ids: Iterable[int]) -> str:
    """Return the ids as words of a statement, in their order."""
    return ", ".join(map(str, sorted(map(int, ids))))
