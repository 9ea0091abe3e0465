"""enqueue: nothing -> ready, in the caller's own transaction.

All is checked before the first statement, so that a refusal has written nothing and leaves the
caller's transaction as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections, models
from django.utils import timezone

from .. import payloads, sql
from ..durations import EARLIEST, LATEST, seconds_of
from ..exceptions import QueueError
from ..integers import whole_number
from ..models import KEY_LENGTH, Job, State
from ..policies import checked_attempts
from ..sql.rows import instance
from .notices import announce
from .repeats import repeated

logger = logging.getLogger("django_nobroker")

MAX_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How jobs are to be enqueued; `new` checks it all."""

    queue: str
    max_attempts: int
    priority: int = 0
    delay: float | timedelta = 0.0
    run_after: datetime | None = None
    job_id: str | None = None
    subject: str | models.Model | None = None
    task: str = ""
    backend: str = ""

    def new(self, texts: list[str]) -> sql.NewJobs:
        """Return the rows to insert, one for each payload text; raise QueueError for bad terms."""
        delay = seconds_of(self.delay, "delay")
        if self.run_after is not None and delay:
            raise QueueError("Give delay or run_after, not both.")
        return sql.NewJobs(
            payloads=texts,
            columns={
                "queue": self.queue,
                "task": self.task,
                "backend": self.backend,
                "priority": whole_number(self.priority, "priority", least=-100, most=100),
                "max_attempts": checked_attempts(self.max_attempts),
                "job_id": checked_key(self.job_id, "job_id"),
                "subject": subject_of(self.subject),
            },
            delay=delay,
            run_after=_checked_time(self.run_after),
        )


def enqueue(alias: str, payload: Any, terms: Terms) -> Job:
    """Write one job, or return the one of its queue that has the same key, unchanged.

    Raises SerializationError and QueueError before anything is written.
    """
    new = terms.new([payloads.encode(payload)])
    connection = connections[alias]
    dialect = sql.dialect(connection)
    if terms.job_id is None:
        job = dialect.insert(connection, new)[0]
        announce(alias, [terms.queue])
        return job
    for _ in range(MAX_TRIES):
        if created := _insert_keyed(connection, new):
            announce(alias, [terms.queue])
            return created
        if found := _existing(alias, terms):
            return found
        # The job with this key has been deleted since, and the key is free again; or our snapshot
        # is older than the job, and will not see it however often we look.
    if connection.in_atomic_block:
        return _unseen(alias, terms)
    raise QueueError(
        f"The key {terms.job_id!r} in queue {terms.queue} is taken and freed faster than it "
        "can be read; enqueue again."
    )


def enqueue_many(alias: str, values: Iterable[Any], terms: Terms) -> list[Job]:
    """Write one job for each payload, all or none; return them in the same order."""
    texts = [payloads.encode(value, f"payloads[{index}]") for index, value in enumerate(values)]
    new = terms.new(texts)
    if not texts:
        return []
    connection = connections[alias]
    jobs = sql.dialect(connection).insert(connection, new)
    announce(alias, [terms.queue])
    return jobs


def load_times(alias: str, jobs: Sequence[Job]) -> None:
    """Load when these jobs were written and are due, all with one query."""
    missing = [job.id for job in jobs if not job.holds("created_at")]
    if not missing:
        return
    rows = Job.objects.using(alias).filter(pk__in=missing)
    times = {pk: found for pk, *found in rows.values_list("pk", "created_at", "available_at")}
    for job in jobs:
        if job.id in times:
            job.created_at, job.available_at = times[job.id]


def _insert_keyed(connection: Any, new: sql.NewJobs) -> Job | None:
    """Insert; return None if the key is taken, also by a transaction we cannot see."""
    dialect = sql.dialect(connection)
    try:
        return repeated(connection.alias, lambda: dialect.insert_keyed(connection, new))
    except DatabaseError as error:
        # The winner is newer than our snapshot, which cannot tell more of it than its key.
        if dialect.is_newer_row(error):
            return None
        raise


def _existing(alias: str, terms: Terms) -> Job | None:
    """Return the job that has the key, marked as not created, or None if it is not to be seen."""
    found = Job.objects.using(alias).with_key(terms.queue, terms.job_id).first()
    if found is None:
        return None
    found.created = False
    if found.state in {State.DEAD, State.CANCELLED}:
        logger.warning(
            "Job %s in queue %s is %s: enqueueing its key %r again changes nothing. "
            "Requeue or discard it.",
            found.id,
            found.queue,
            found.state,
            found.job_id,
            extra={"job_id": found.id, "queue": found.queue},
        )
    return found


def _unseen(alias: str, terms: Terms) -> Job:
    """Return what is known of a job that our snapshot is too old to see: `id` is None."""
    known = {"id": None, "queue": terms.queue, "job_id": terms.job_id, "created": False}
    return instance(alias, known)


def subject_of(subject: str | models.Model | None) -> str | None:
    """Return what is stored for a subject: a text as it is, a model as `app.model:pk`."""
    if isinstance(subject, models.Model):
        if subject.pk is None:
            raise QueueError(f"The subject {subject!r:.80} has no primary key yet; save it first.")
        subject = f"{subject._meta.label_lower}:{subject.pk}"
    return checked_key(subject, "subject")


def checked_key(value: Any, name: str) -> str | None:
    """Return a text of 1 to 190 characters that every database can hold, or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise QueueError(f"{name} must be a string, not {type(value).__name__}.")
    if not 1 <= len(value) <= KEY_LENGTH:
        raise QueueError(f"{name} must have 1 to {KEY_LENGTH} characters, not {len(value)}.")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise QueueError(f"{name} holds a NUL or half a surrogate pair, which databases refuse.")
    return str(value)


def _checked_time(value: Any) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise QueueError(f"run_after must be a datetime, not {type(value).__name__}.")
    if timezone.is_naive(value):
        if settings.USE_TZ:
            raise QueueError(
                "run_after must be an aware datetime: try django.utils.timezone.now()."
            )
        value = timezone.make_aware(value, timezone.get_default_timezone())
    if value >= LATEST:
        raise QueueError(f"run_after lies past the year 9999: {value}.")
    # What was due before 1970 is due now, as everything past.
    due: datetime = max(value, EARLIEST)
    return due
