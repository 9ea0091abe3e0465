"""What each way to end or renew a lease writes into the row: values only, no conditions.

`settle` says when, and for which rows.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.db.models.functions import Greatest, Least

from ..clock import Ahead, Now
from ..models import COUNT_LIMIT, SNOOZE_LIMIT, State, fence_after
from ..sql import Given, Move

_LEAVE = {
    "fence": fence_after(),
    "leased_by": "",
    "leased_at": None,
    "lease_expires_at": None,
}
_GIVE_BACK = {"attempts": Greatest(F("attempts") - 1, 0)}
_ERROR = {"error_class": "text", "last_error": "text", "losses": "integer"}


def _error(given: Given) -> dict[str, Any]:
    return {
        "error_class": given("error_class"),
        "last_error": given("last_error"),
        "lease_losses": Least(F("lease_losses") + given("losses"), COUNT_LIMIT),
    }


ACK = Move(
    "ack",
    lambda given: {
        **_LEAVE,
        "state": State.DONE.value,
        "finished_at": Now(),
        "result": given("result"),
        "error_class": "",
        "last_error": None,
    },
    {"result": "text"},
)
RETRY = Move(
    "retry",
    lambda given: {
        **_LEAVE,
        **_error(given),
        "state": State.READY.value,
        "available_at": Ahead(given("delay")),
    },
    {**_ERROR, "delay": "float"},
)
BURY = Move(
    "bury",
    lambda given: {
        **_LEAVE,
        **_error(given),
        "state": State.DEAD.value,
        "finished_at": Now(),
    },
    _ERROR,
)
RELEASE = Move("release", lambda given: {**_LEAVE, **_GIVE_BACK, "state": State.READY.value})
SNOOZE = Move(
    "snooze",
    lambda given: {
        **_LEAVE,
        **_GIVE_BACK,
        "state": State.READY.value,
        "available_at": Ahead(given("delay")),
        "snoozes": Least(F("snoozes") + 1, SNOOZE_LIMIT),
    },
    {"delay": "float"},
)
EXTEND = Move(
    "extend", lambda given: {"lease_expires_at": Ahead(given("seconds"))}, {"seconds": "float"}
)
# The keeper must not wait for the transaction of a handler that holds its own row.
RENEW = Move("renew", EXTEND.sets, EXTEND.columns, skip_locked=True)
PROGRESS = Move(
    "progress",
    lambda given: {"progress": given("progress"), "progress_note": given("note")},
    {"progress": "float", "note": "text"},
)
