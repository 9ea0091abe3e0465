"""Runs a handler and its ack as one transaction: both are done, or neither is.

The fence is checked by the ack, inside the transaction: if the lease was lost meanwhile, all
that the handler wrote is rolled back with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.db import Error, connections, transaction

from .. import sql
from ..exceptions import LeaseLost
from ..transitions import settle
from .handlers import Fault
from .holdings import Held
from .link import turn


def run_atomic(held: Held, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Call the handler and settle its job as done, in one transaction on the job's database.

    Raises what the handler raises, and then has written nothing. An async handler runs on an
    event loop of its own; its sync parts come back to this thread, and to its transaction.
    """
    handler: Any = held.handler
    alias = held.job._state.db or ""
    function = async_to_sync(handler.function) if handler.is_async else handler.function
    connection = connections[alias]
    try:
        with turn(alias), transaction.atomic(using=alias):
            if len(connection.atomic_blocks) == 1:
                # The first of the hooks that run after the commit: an error in a later one does
                # not undo what is done.
                transaction.on_commit(lambda: _settled(held), using=alias)
            held.result = handler.stored(held, function(*args, **kwargs))
            _ack(alias, held)
        _settled(held)
    except Error as error:
        if sql.dialect(connection).is_conflict(error):
            held.fault = Fault.CONFLICT
        raise


def _settled(held: Held) -> None:
    held.is_settled = True


def _ack(alias: str, held: Held) -> None:
    forget = held.options.keep_done == 0
    try:
        settle.apply_one(alias, settle.acked(held.job, held.result, forget=forget))
    except LeaseLost:
        held.is_lost = held.job.lease_lost = True
        raise
