"""lease: ready -> leased, committed before any work starts."""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.db.models import F
from django.db.models.functions import Coalesce, Least

from .. import sql
from ..clock import Ahead, Now
from ..exceptions import LeaseInTransaction
from ..fields import UTCDateTimeField
from ..models import COUNT_LIMIT, Job, State, fence_after

LEASE = sql.Move(
    "lease",
    lambda given: {
        "state": State.LEASED.value,
        "attempts": Least(F("attempts") + 1, COUNT_LIMIT),
        "fence": fence_after(),
        "leased_by": given("worker"),
        "leased_at": Now(),
        "lease_expires_at": Ahead(given("seconds")),
        "started_at": Coalesce("started_at", Now(), output_field=UTCDateTimeField()),
        "progress": None,
        "progress_note": "",
    },
    {"worker": "text", "seconds": "float"},
)


def lease(alias: str, claim: sql.Claim) -> list[Job]:
    """Lease up to `claim.count` due jobs of one lane, in its order.

    Raises LeaseInTransaction inside an open transaction (a test's own excepted): a rollback
    would leave jobs running that nobody holds.
    """
    connection = connections[alias]
    refuse_transaction(connection)
    jobs = sql.dialect(connection).lease(connection, claim, LEASE)
    for job in jobs:
        job.held_fence = job.fence
    return jobs


def refuse_transaction(connection: Any) -> None:
    """Raise LeaseInTransaction where `atomic(durable=True)` refuses, and without autocommit."""
    blocks = connection.atomic_blocks
    nested = bool(blocks) and not blocks[-1]._from_testcase
    if nested or not (connection.in_atomic_block or connection.get_autocommit()):
        raise LeaseInTransaction(
            f"Jobs cannot be leased inside a transaction on {connection.alias!r}: the lease must "
            "be committed before the work starts. Lease outside atomic(), with autocommit on."
        )
