"""Rows chosen by their ids: locked, and then changed or deleted, without a look at any other row.

A statement that passes by rows of other transactions waits for them, and what waits while it
holds locks is a deadlock in the making. Most planners go by the primary key when they are given
ids. MySQL's rather scans a table when that is small, or when the ids are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db import connections, transaction

from ..models import Attempt, Job, JobQuerySet

Work = Callable[[list[int]], int]


class ChosenRows:
    """By the ORM, for planners that go by the primary key."""

    def change_held(
        self, jobs: JobQuerySet, ids: Sequence[int], work: Work, *, skip_locked: bool = False
    ) -> int:
        """Return `work(ids)` for those of the ids that are among `jobs` once they are locked.

        All of it is one transaction. With `skip_locked`, what others hold is left out where that
        is possible. Where no row can be locked, `work` gets all the ids: its statement must ask
        for `jobs` itself, and come first, since SQLite refuses a write after a read if others
        wrote in between.
        """
        features = connections[jobs.db].features
        with transaction.atomic(using=jobs.db):
            if not features.has_select_for_update:
                return work(list(ids))
            skip = skip_locked and features.has_select_for_update_skip_locked
            held = jobs.filter(pk__in=ids).order_by("pk").select_for_update(skip_locked=skip)
            return work(list(held.values_list("pk", flat=True)))

    def lock_jobs(
        self, connection: Any, ids: Iterable[int], *, skip_locked: bool = False
    ) -> dict[int, int]:
        """Lock the rows of jobs in the order of their ids, where rows can be locked at all.

        Return the fence of each.
        """
        if not connection.features.has_select_for_update:
            return {}
        skip = skip_locked and connection.features.has_select_for_update_skip_locked
        rows = Job.objects.using(connection.alias).filter(pk__in=ids).order_by("pk")
        return dict(rows.select_for_update(skip_locked=skip).values_list("pk", "fence"))

    def amend(self, jobs: JobQuerySet, ids: Sequence[int], values: dict[str, Any]) -> int:
        """Update these of the jobs; return how many."""
        return jobs.filter(pk__in=ids).order_by().update(**values)

    def forget(self, jobs: JobQuerySet, ids: Sequence[int]) -> int:
        """Delete these of the jobs, with their attempts; return how many."""
        jobs = jobs.filter(pk__in=ids).order_by()
        Attempt.objects.using(jobs.db).filter(job__in=jobs)._raw_delete(jobs.db)
        # None when the conditions cannot be met by any row.
        return jobs._raw_delete(jobs.db) or 0
