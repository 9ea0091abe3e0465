"""The job table. What may change a job, and when, is in `transitions`; nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import models
from django.db.models import F, Q, Value

from .. import payloads
from ..clock import Now
from ..constraints import Between, ValidName, ValidTime
from ..fields import KeyField, RawTextField, UTCDateTimeField
from ..indexes import KeyConstraint, PartialIndex

COUNT_LIMIT = 32_767
SNOOZE_LIMIT = 2_000_000_000
# Beyond it the fence begins again at 0, so that no number in a row can stop its lease.
FENCE_LIMIT = 2**62
QUEUE_LENGTH = 128
KEY_LENGTH = 190


class State(models.TextChoices):
    """Where a job is. Delayed is not a state: it is `ready` with `available_at` to come."""

    READY = "ready", "Ready"
    LEASED = "leased", "Leased"
    DONE = "done", "Done"
    DEAD = "dead", "Dead"
    CANCELLED = "cancelled", "Cancelled"


_BOUNDS: dict[str, Any] = {
    "priority": Between("priority", least=-100, most=100),
    "attempts": Between("attempts", least=0, most=COUNT_LIMIT),
    "max_attempts": Between("max_attempts", least=1, most=COUNT_LIMIT),
    "fence": Between("fence", least=0, most=FENCE_LIMIT - 1),
    "losses": Between("lease_losses", least=0, most=COUNT_LIMIT),
    "snoozes": Between("snoozes", least=0, most=SNOOZE_LIMIT),
    "progress": Q(progress__isnull=True) | Q(progress__gte=0, progress__lte=1),
}


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs to look at. To change them, call `transitions`."""

    def in_queue(self, name: str) -> JobQuerySet:
        """Return the jobs of one queue."""
        return self.filter(queue=name)

    def with_key(self, queue: str, job_id: str | None) -> JobQuerySet:
        """Return the job of a queue that has this key, if there is one."""
        return self.filter(queue=queue, job_id=job_id)

    def due(self) -> JobQuerySet:
        """Return the jobs that a worker may lease now."""
        return self.filter(state=State.READY, available_at__lte=Now())

    def delayed(self) -> JobQuerySet:
        """Return the jobs that wait for their time."""
        return self.filter(state=State.READY, available_at__gt=Now())

    def expired(self) -> JobQuerySet:
        """Return the leased jobs whose deadline has passed."""
        return self.filter(state=State.LEASED, lease_expires_at__lte=Now())

    def dead(self) -> JobQuerySet:
        """Return the dead letters, the newest first."""
        return self.filter(state=State.DEAD).order_by("-finished_at", "-id")


class Job(models.Model):
    """One row: a payload, and all that is known of its delivery."""

    id = models.BigAutoField(primary_key=True)
    queue = KeyField(max_length=QUEUE_LENGTH, db_default="default")
    task = KeyField(max_length=255, db_default="", blank=True)
    backend = KeyField(max_length=64, db_default="", blank=True)
    payload_text = RawTextField(db_column="payload")
    state = KeyField(max_length=10, choices=State.choices, db_default=State.READY.value)
    priority = models.SmallIntegerField(db_default=0)
    available_at = UTCDateTimeField(db_default=Now())
    attempts = models.SmallIntegerField(db_default=0)
    max_attempts = models.SmallIntegerField(db_default=5)
    fence = models.BigIntegerField(db_default=0)
    lease_losses = models.SmallIntegerField(db_default=0)
    snoozes = models.IntegerField(db_default=0)
    leased_by = KeyField(max_length=KEY_LENGTH, db_default="", blank=True)
    leased_at = UTCDateTimeField(null=True, blank=True)
    lease_expires_at = UTCDateTimeField(null=True, blank=True)
    started_at = UTCDateTimeField(null=True, blank=True)
    job_id = KeyField(max_length=KEY_LENGTH, null=True, blank=True)
    subject = KeyField(max_length=KEY_LENGTH, null=True, blank=True)
    error_class = KeyField(max_length=200, db_default="", blank=True)
    last_error = RawTextField(null=True, blank=True)
    # Since when no worker that leased it knew its task.
    unknown_since = UTCDateTimeField(null=True, blank=True)
    progress = models.FloatField(null=True, blank=True)
    progress_note = KeyField(max_length=200, db_default="", blank=True)
    result = RawTextField(null=True, blank=True)
    created_at = UTCDateTimeField(db_default=Now())
    finished_at = UTCDateTimeField(null=True, blank=True)

    objects = JobQuerySet.as_manager()

    # Whether this enqueue wrote the row, or found one with the same key.
    created = True
    # Set from outside while a handler runs: this worker no longer holds the job.
    lease_lost = False
    # The fence that this instance was given when it was leased; None for one that was only read.
    held_fence: int | None = None
    # The columns that wait to be converted: their places, and the row. See fields.ReadLate.
    _late: tuple[Mapping[str, int], Sequence[Any]] = ({}, ())
    # What a handler made of its own job, by Queue.ack() or Queue.nack().
    verdict_by_hand: Any = None

    class Meta:
        db_table = "nobroker_job"
        default_permissions = ("view",)
        permissions = (
            ("retry_job", "Can retry dead and cancelled jobs"),
            ("discard_job", "Can discard jobs"),
            ("cancel_job", "Can cancel jobs"),
            ("edit_job_payload", "Can edit the payload of jobs"),
            ("unmask_job", "Can see masked payload values"),
        )
        indexes = (
            # A lane is (queue, priority). What lost a lease is leased alone, so it has lanes
            # of its own: equality on three columns, then the order of the lane.
            PartialIndex(
                name="nobroker_job_lane",
                fields=["queue", "priority", "lease_losses", "available_at", "id"],
                where=Q(state="ready"),
                instead=["state", "queue", "priority", "lease_losses", "available_at", "id"],
            ),
            PartialIndex(
                name="nobroker_job_expiry",
                fields=["lease_expires_at"],
                where=Q(state="leased"),
            ),
            PartialIndex(
                name="nobroker_job_settled",
                fields=["state", "finished_at", "id"],
                where=Q(state__in=["done", "dead", "cancelled"]),
            ),
            PartialIndex(
                name="nobroker_job_subject",
                fields=["subject"],
                where=Q(subject__isnull=False),
            ),
        )
        constraints = (
            KeyConstraint(fields=["queue", "job_id"], name="nobroker_job_key"),
            models.CheckConstraint(
                name="nobroker_job_state_known",
                condition=Q(state__in=["ready", "leased", "done", "dead", "cancelled"]),
            ),
            models.CheckConstraint(name="nobroker_job_queue_named", condition=ValidName("queue")),
            models.CheckConstraint(
                name="nobroker_job_lease_dated",
                condition=(
                    Q(state="leased", lease_expires_at__isnull=False)
                    | (~Q(state="leased") & Q(lease_expires_at__isnull=True))
                ),
            ),
            models.CheckConstraint(
                name="nobroker_job_end_dated",
                condition=(
                    Q(state__in=["done", "dead", "cancelled"], finished_at__isnull=False)
                    | Q(state__in=["ready", "leased"], finished_at__isnull=True)
                ),
            ),
            *(
                models.CheckConstraint(name=f"nobroker_job_{name}_bounded", condition=condition)
                for name, condition in _BOUNDS.items()
            ),
            *(
                models.CheckConstraint(name=f"nobroker_job_{name}_valid", condition=ValidTime(name))
                for name in (
                    "available_at",
                    "leased_at",
                    "lease_expires_at",
                    "started_at",
                    "unknown_since",
                    "created_at",
                    "finished_at",
                )
            ),
        )

    def __str__(self) -> str:
        key = f" ({self.job_id})" if self.job_id else ""
        return f"job {self.pk}{key} in queue {self.queue}"

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: models.QuerySet[Job] | None = None,
    ) -> None:
        """Read the row again, or what of it was not loaded: where it was written, not a replica."""
        # Django takes what waits to be converted for what was never loaded.
        for name in self._late[0]:
            getattr(self, name)
        super().refresh_from_db(using or self._state.db, fields, from_queryset)

    def holds(self, name: str) -> bool:
        """Return whether a column is at hand, so that reading it costs no query."""
        return name in self.__dict__ or name in self._late[0]

    @property
    def lease_fence(self) -> int:
        """The fence of the lease that this instance stands for, however often it is read again."""
        return self.fence if self.held_fence is None else self.held_fence

    @property
    def payload(self) -> Any:
        """The value that was enqueued.

        Raises SerializationError for a row that another program wrote with broken JSON;
        `payload_text` has its text.
        """
        text = self.payload_text
        cached = self.__dict__.get("_payload")
        if cached is None or cached[0] is not text:
            value = payloads.decode(text, lambda: f"payload of {self}")
            cached = self.__dict__["_payload"] = (text, value)
        return cached[1]


def fence_after() -> Any:
    """Return the expression for the next fence of a row."""
    # As a bigint: server-side parameters take the type of the field, and an integer would overflow.
    return (F("fence") + 1) % Value(FENCE_LIMIT, output_field=models.BigIntegerField())
