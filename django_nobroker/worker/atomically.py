"""Runs a handler and its ack as one transaction: both are done, or neither is.

The fence is checked by the ack, inside the transaction: if the lease was lost meanwhile, all
that the handler wrote is rolled back with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.db import Error, connections, transaction

from .. import sql
from ..exceptions import LeaseLost, QueueError
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
    connection = connections[alias]
    function = async_to_sync(handler.function) if handler.is_async else handler.function
    try:
        with turn(alias), transaction.atomic(using=alias):
            if len(connection.atomic_blocks) == 1:
                # The first of the hooks that run after the commit: an error in a later one does
                # not undo what is done.
                transaction.on_commit(lambda: _settled(held), using=alias)
            _lock_if_needed(connection, held)
            _call(alias, held, lambda: function(*args, **kwargs))
            _ack(alias, held)
        _settled(held)
    except Error as error:
        if sql.dialect(connection).is_rollback(error):
            held.fault = Fault.CONFLICT
        raise
    finally:
        held.is_locked = False


def _call(alias: str, held: Held, call: Callable[[], Any]) -> None:
    handler: Any = held.handler
    # A savepoint of its own, whose release fails if the transaction is no longer the one that was
    # begun: by a COMMIT of the handler's, or because the database rolled it back and the handler
    # took no notice. The ack alone must not be committed then.
    with transaction.atomic(using=alias):
        held.result = handler.stored(held, call())
        if connections[alias].needs_rollback:
            # Django would roll back to the savepoint without a word.
            raise transaction.TransactionManagementError(
                f"{handler.name} caught an error of the database, or marked its transaction for "
                "rollback: put what may fail into an atomic() block of its own, inside the try."
            )


def _lock_if_needed(connection: Any, held: Held) -> None:
    """Lock the row first where a renewal of its lease would spoil the handler's snapshot."""
    if not sql.dialect(connection).has_one_snapshot(connection):
        return
    if not settle.lock(connection.alias, held.job):
        _lose(held)
        raise settle.lease_lost(connection.alias, held.job)
    # From here on it cannot be renewed, nor taken by anybody.
    held.is_locked = True


def _ack(alias: str, held: Held) -> None:
    job = held.job
    if job.verdict_by_hand is not None:
        job.verdict_by_hand = None
        raise QueueError(
            f"{job}: an atomic handler must not settle its own job, which is settled with the "
            "handler's transaction. Raise Reject, Retry or Snooze to choose otherwise."
        )
    forget = held.options.keep_done == 0
    try:
        settle.apply_one(alias, settle.acked(job, held.result, forget=forget))
    except LeaseLost:
        _lose(held)
        raise


def _lose(held: Held) -> None:
    held.is_lost = held.job.lease_lost = True


def _settled(held: Held) -> None:
    held.is_settled = True
