"""The tables beside the jobs: failed attempts, paused queues, and what people are shown."""

from __future__ import annotations

from django.db import models

from ..clock import Now
from ..constraints import ValidName
from ..fields import KeyField, RawTextField, UTCDateTimeField
from .job import KEY_LENGTH, QUEUE_LENGTH, Job

FORMAT_VERSION = 1


class Attempt(models.Model):
    """One failed attempt of a job. A success writes none."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(
        Job, models.DO_NOTHING, related_name="failed_attempts", db_constraint=False
    )
    fence = models.BigIntegerField()
    number = models.SmallIntegerField()
    worker = KeyField(max_length=KEY_LENGTH, db_default="", blank=True)
    started_at = UTCDateTimeField(null=True, blank=True)
    ended_at = UTCDateTimeField(db_default=Now())
    error_class = KeyField(max_length=200, db_default="", blank=True)
    message = RawTextField(null=True, blank=True)
    traceback = RawTextField(null=True, blank=True)

    class Meta:
        db_table = "nobroker_attempt"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"attempt {self.number} of job {self.job_id}: {self.error_class}"


class QueueControl(models.Model):
    """A queue that a person has paused: it accepts jobs, and no worker leases them."""

    queue = KeyField(max_length=QUEUE_LENGTH, primary_key=True)
    paused_by = KeyField(max_length=KEY_LENGTH, db_default="", blank=True)
    paused_at = UTCDateTimeField(db_default=Now())

    class Meta:
        db_table = "nobroker_queue"
        default_permissions = ("view",)
        permissions = (("pause_queue", "Can pause and resume queues"),)
        constraints = (
            models.CheckConstraint(name="nobroker_queue_named", condition=ValidName("queue")),
        )

    def __str__(self) -> str:
        return f"queue {self.queue}, paused"


class WorkerProcess(models.Model):
    """A worker that is up, for people to see. No recovery depends on this row."""

    identity = KeyField(max_length=KEY_LENGTH, primary_key=True)
    name = KeyField(max_length=KEY_LENGTH, db_default="", blank=True)
    host = KeyField(max_length=255, db_default="", blank=True)
    pid = models.BigIntegerField(db_default=0)
    queues = RawTextField()
    concurrency = models.IntegerField(db_default=1)
    running = models.IntegerField(db_default=0)
    versions = KeyField(max_length=255, db_default="", blank=True)
    started_at = UTCDateTimeField(db_default=Now())
    heartbeat_at = UTCDateTimeField(db_default=Now())

    class Meta:
        db_table = "nobroker_worker"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"worker {self.identity}"


class Minute(models.Model):
    """What the workers did in one queue in one minute, added up once a minute."""

    id = models.BigAutoField(primary_key=True)
    queue = KeyField(max_length=QUEUE_LENGTH)
    minute = UTCDateTimeField()
    done = models.IntegerField(db_default=0)
    failed = models.IntegerField(db_default=0)
    dead = models.IntegerField(db_default=0)
    wait_seconds = models.FloatField(db_default=0.0)
    run_seconds = models.FloatField(db_default=0.0)

    class Meta:
        db_table = "nobroker_minute"
        default_permissions = ("view",)
        constraints = (
            models.UniqueConstraint(fields=["queue", "minute"], name="nobroker_minute_once"),
        )

    def __str__(self) -> str:
        return f"{self.queue} at {self.minute}"


class Format(models.Model):
    """The version of the tables, written by post_migrate; without a row they are current."""

    key = KeyField(max_length=40, primary_key=True)
    version = models.IntegerField(db_default=FORMAT_VERSION)

    class Meta:
        db_table = "nobroker_meta"
        default_permissions = ()

    def __str__(self) -> str:
        return f"format {self.version}"
