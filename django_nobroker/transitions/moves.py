"""What each way to end or renew a lease writes into the row: values only, no conditions.

`settle` says when, and for which rows.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce, Greatest, Least

from ..clock import Ahead, Now
from ..fields import UTCDateTimeField
from ..models import COUNT_LIMIT, SNOOZE_LIMIT, State, fence_after
from ..sql import Given, Move

_LEAVE = {"fence": fence_after(), "lease_expires_at": None}
_FREE = {**_LEAVE, "leased_by": "", "leased_at": None}
# Whatever became of it, a worker knew what to do with it.
_KNOWN = {"unknown_since": None}
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
        # By whom and when it was done stays in the row: no Attempt tells.
        **_LEAVE,
        **_KNOWN,
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
        **_FREE,
        **_KNOWN,
        **_error(given),
        "state": State.READY.value,
        "available_at": Ahead(given("delay")),
    },
    {**_ERROR, "delay": "float"},
)
BURY = Move(
    "bury",
    lambda given: {
        **_FREE,
        **_KNOWN,
        **_error(given),
        "state": State.DEAD.value,
        "finished_at": Now(),
    },
    _ERROR,
)
RELEASE = Move("release", lambda given: {**_FREE, **_GIVE_BACK, "state": State.READY.value})
SNOOZE = Move(
    "snooze",
    lambda given: {
        **_FREE,
        **_KNOWN,
        **_GIVE_BACK,
        "state": State.READY.value,
        "available_at": Ahead(given("delay")),
        "snoozes": Least(F("snoozes") + 1, SNOOZE_LIMIT),
    },
    {"delay": "float"},
)
POSTPONE = Move(
    "postpone",
    lambda given: {
        **_FREE,
        **_GIVE_BACK,
        "state": State.READY.value,
        "available_at": Ahead(given("delay")),
        "unknown_since": Coalesce("unknown_since", Now(), output_field=UTCDateTimeField()),
        "error_class": given("error_class"),
        "last_error": given("last_error"),
    },
    {"error_class": "text", "last_error": "text", "delay": "float"},
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
