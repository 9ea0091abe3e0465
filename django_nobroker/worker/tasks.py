"""Which function runs a job whose row names a task, and what it is called with.

A task that this worker does not know may belong to another release: its jobs are given back
untried until UNKNOWN_GRACE is over. What is no Task is never called.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from .. import calls, sql, tasks
from ..backend import NobrokerBackend
from ..exceptions import NotATask, SerializationError, UnknownTask
from ..policies import Policy, policy_of
from .handlers import Fault

if TYPE_CHECKING:
    from django.tasks import Task

    from .holdings import Held

logger = logging.getLogger("django_nobroker")

# Seconds until a path that could not be followed is tried again: a deploy may be under way.
TRY_AGAIN = 2.0
# Rows can name any number of paths; so many are remembered.
MOST_UNKNOWN = 1000


@dataclass
class TaskHandler:
    """A task as a worker runs it; beside `Handler`, which runs payloads."""

    task: Task[..., Any]
    name: str
    policy: Policy
    # Whether it was said that the arguments of some job do not fit.
    is_misfit_told: bool = False

    @property
    def function(self) -> Callable[..., Any]:
        """The task's function."""
        return self.task.func

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.task.func)

    @property
    def on_loop(self) -> bool:
        """Whether it runs on the event loop: an atomic one needs a thread for its transaction."""
        return self.is_async and not self.policy.atomic

    def arguments(self, held: Held) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what to call the function with, and announce the start.

        Raises SerializationError for a payload that is no call, UnknownTask for one that does
        not fit the function as it is here.
        """
        from django.tasks.signals import task_started

        from .. import results

        try:
            call = calls.read(held.job.payload_text, lambda: f"payload of {held.job}")
        except SerializationError:
            held.fault = Fault.HOPELESS
            raise
        result = results.running(held.job, self.task, call)
        self._bind(held, result)
        held.task_result = result
        announce(task_started, sender_of(result), result)
        if not self.task.takes_context:
            return result.args, result.kwargs
        context = results.JobContext(task_result=result, job=held.job)
        return [context, *result.args], result.kwargs

    async def arguments_on_loop(self, held: Held) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what `arguments` returns: on a thread, for receivers of signals may block."""
        return await sync_to_async(self.arguments)(held)

    def stored(self, held: Held, value: Any) -> str:
        """Return what the task returned, as JSON; raise TypeError or ValueError if it cannot be."""
        connection = connections[held.job._state.db or ""]
        try:
            text = calls.stored_result(value)
            sql.dialect(connection).refuse_large(connection, text, "The return value")
            return text
        except (TypeError, ValueError, RecursionError):
            held.fault = Fault.HOPELESS
            if inspect.iscoroutine(value):
                value.close()
            raise

    @cached_property
    def _signature(self) -> inspect.Signature:
        return tasks.signature_of(self.task)

    def _bind(self, held: Held, result: Any) -> None:
        try:
            self._signature.bind(*result.args, **result.kwargs)
        except TypeError as error:
            held.fault = Fault.UNKNOWN
            misfit = UnknownTask(f"The arguments of {held.job} do not fit {self.name}: {error}.")
            if not self.is_misfit_told:
                self.is_misfit_told = True
                tell_unknown(misfit, self.name)
            raise misfit from None


@dataclass(frozen=True, slots=True)
class NoHandler:
    """Stands where the handler would be, for a job that is not to be run here."""

    name: str
    policy: Policy = field(default_factory=Policy)
    is_async: bool = False
    on_loop: bool = False


class Tasks:
    """The tasks that a worker has met, each imported when the first of its jobs is leased."""

    def __init__(self) -> None:
        self._found: dict[str, TaskHandler] = {}
        # Why a path could not be followed, and until when that is believed.
        self._unknown: dict[str, tuple[str, float]] = {}

    def assign(self, held: Held) -> BaseException | None:
        """Give a leased job its task; return why it cannot run here, if it cannot."""
        path = held.job.task
        if not path:
            return None
        try:
            held.handler = self._handler(path)
        except BaseException as error:
            held.handler = NoHandler(path)
            held.fault = Fault.HOPELESS if isinstance(error, NotATask) else Fault.UNKNOWN
            return error
        return None

    def _handler(self, path: str) -> TaskHandler:
        found = self._found.get(path)
        if found is None:
            found = self._found[path] = self._look_up(path)
        return found

    def _look_up(self, path: str) -> TaskHandler:
        known, until = self._unknown.get(path, (None, 0.0))
        if known is not None and time.monotonic() < until:
            raise UnknownTask(known)
        try:
            task = tasks.find(path)
        except UnknownTask as error:
            if known is None:
                tell_unknown(error, path)
            if len(self._unknown) >= MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[path] = (str(error), time.monotonic() + TRY_AGAIN)
            raise
        if self._unknown.pop(path, None) is not None:
            logger.warning("The task %s can be imported now.", path, extra={"task": path})
        return TaskHandler(task, path, policy_of(task.func))


def tell_unknown(error: UnknownTask, path: str) -> None:
    """Say why jobs of a task are given back; for each task and worker once."""
    logger.warning(
        "%s Such jobs wait until UNKNOWN_GRACE is over, for a worker whose release knows them.",
        error,
        extra={"task": path},
    )


def announce(signal: Any, sender: type, result: Any) -> None:
    """Send one of Django's task signals; an error of a receiver is logged and goes no further."""
    outcomes: Iterable[tuple[Any, Any]] = signal.send_robust(sender, task_result=result)
    for receiver, outcome in outcomes:
        if isinstance(outcome, Exception):
            logger.error(
                "The receiver %r of a signal about task id=%s raised %s.",
                receiver,
                result.id,
                type(outcome).__name__,
                exc_info=outcome,
            )


def sender_of(result: Any) -> type:
    """Return the class that sends the signals of a task: that of the backend which wrote it."""
    from django.tasks import task_backends

    try:
        return type(task_backends[result.backend])
    except ImproperlyConfigured:
        return NobrokerBackend
