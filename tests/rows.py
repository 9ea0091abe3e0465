"""Rows made and moved behind the queue's back, as another program or the passing of time would."""

from django.db import connection

from django_nobroker.clock import Ahead, Now
from django_nobroker.models import Job

HOUR = 3600


def insert(payload="{}", **columns):
    """Write a job by plain SQL; a value in a list is SQL of its own."""
    columns = {"queue": "default", "payload": payload, **columns}
    values = [value[0] if isinstance(value, list) else "%s" for value in columns.values()]
    params = [value for value in columns.values() if not isinstance(value, list)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO nobroker_job ({', '.join(columns)}) VALUES ({', '.join(values)})", params
        )


def alter(job, **columns):
    """Change the row of a job as no transition would."""
    assert Job.objects.filter(pk=job.pk).update(**columns) == 1


def expire(*jobs):
    """Let the leases of jobs run out."""
    for job in jobs:
        alter(job, lease_expires_at=Ahead(-HOUR))


def bring_forward(*jobs):
    """Make jobs due that wait for their time."""
    for job in jobs:
        alter(job, available_at=Now())


def age(*jobs, seconds=10 * 366 * 86400):
    """Let jobs have been settled long ago."""
    for job in jobs:
        alter(job, finished_at=Ahead(-seconds))


def snapshot(job):
    """Return every column of a job's row and its attempts, or None if it is gone."""
    row = Job.objects.filter(pk=job.pk).values().first()
    if row is None:
        return None
    return row, list(job.failed_attempts.order_by("pk").values())
