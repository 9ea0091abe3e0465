"""What every log record about a job carries, so that a log can be searched by it."""

from __future__ import annotations

from .models import Job


def about(job: Job) -> dict[str, object]:
    """Return the `extra` of a record: the same five keys wherever it is written."""
    return {
        "job_id": job.id,
        "queue": job.queue,
        "task": job.task,
        "attempt": job.attempts,
        "worker": job.leased_by,
    }
