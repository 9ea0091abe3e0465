"""Reading a queue: one job, lists, and counts. Nothing here writes."""

from __future__ import annotations

from typing import Any

from . import sql
from . import stats as counting
from .exceptions import JobNotFound, QueueError
from .models import Job, JobQuerySet, State
from .stats import QueueStats
from .transitions.enqueue import checked_key


class QueueReader:
    """What can be seen of a queue; `using` is a database alias, or None."""

    name: str
    using: str | None

    @property
    def alias(self) -> str:
        """The database alias of this queue's jobs."""
        return sql.database(self.using)

    @property
    def jobs(self) -> JobQuerySet:
        """The jobs of this queue, to look at."""
        return Job.objects.using(self.alias).in_queue(self.name)

    def get(self, job_id: str | None = None, *, id: int | None = None) -> Job:
        """Return one job by its key or its id; raises JobNotFound."""
        job = self._selected(job_id, id).first()
        if job is None:
            wanted = f"key {job_id!r:.200}" if id is None else f"id {id!r:.80}"
            raise JobNotFound(
                f"No job with {wanted} in queue {self.name}: it was never enqueued here, or it "
                "was finished longer ago than KEEP_DONE."
            )
        return job

    def stats(self) -> QueueStats:
        """Count the jobs in each state."""
        return counting.count(self.jobs)

    def list_jobs(self, state: str | None = None, *, limit: int | None = None) -> list[Job]:
        """Return jobs in order of id, of one state or of all, at most `limit`."""
        if state is not None and state not in State.values:
            raise QueueError(f"{state!r:.80} is not a state; there are {', '.join(State.values)}.")
        jobs = self.jobs if state is None else self.jobs.filter(state=state)
        return list(jobs.order_by("pk")[: _checked_limit(limit)])

    def dlq(self, *, limit: int | None = None) -> list[Job]:
        """Return the dead letters, the newest first, at most `limit`."""
        return list(self.jobs.dead()[: _checked_limit(limit)])

    def _selected(self, job_id: str | None, id: int | None) -> JobQuerySet:
        if (job_id is None) == (id is None):
            raise QueueError("Name the job by job_id or by id, one of the two.")
        if id is None:
            return self.jobs.filter(job_id=checked_key(job_id, "job_id"))
        if isinstance(id, bool) or not isinstance(id, int):
            raise QueueError(f"id must be a whole number, not {id!r:.80}.")
        return self.jobs.filter(pk=id) if abs(id) < 2**63 else self.jobs.none()


def _checked_limit(limit: Any) -> int | None:
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0):
        return limit
    raise QueueError(f"limit must be a whole number from 0, or None, not {limit!r:.80}.")
