"""Which function runs a job: the worker's own handler, or the HANDLER of the job's queue."""

from __future__ import annotations

import importlib
import inspect
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import conf
from ..exceptions import HandlerNotFound
from ..policies import Policy, policy_of

logger = logging.getLogger("django_nobroker")

# Seconds until a handler that could not be imported is tried again: a deploy may be under way.
TRY_AGAIN = 5.0


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that takes a job, and what it wants done with its failures."""

    function: Callable[..., Any]
    name: str
    is_async: bool
    policy: Policy

    @classmethod
    def of(cls, function: Any) -> Handler:
        """Return the handler for a function or for a dotted path to one.

        Raises HandlerNotFound for a path that leads nowhere and for what cannot be called.
        """
        name = function if isinstance(function, str) else _name_of(function)
        if isinstance(function, str):
            function = _import(function)
        if not callable(function):
            raise HandlerNotFound(f"The handler {name!r:.200} is not a function.")
        return cls(function, name, _is_async(function), policy_of(function))


class Handlers:
    """The handlers of one worker, each imported when its queue is first met."""

    def __init__(self, handler: Any = None) -> None:
        self._own = None if handler is None else Handler.of(handler)
        self._found: dict[str, Handler] = {}
        self._missing: dict[str, float] = {}

    def of_queue(self, queue: str) -> Handler | None:
        """Return what runs the payload jobs of a queue, or None: then they are not leased."""
        if self._own is not None:
            return self._own
        if queue in self._found:
            return self._found[queue]
        if time.monotonic() < self._missing.get(queue, 0.0):
            return None
        return self._look_up(queue)

    def _look_up(self, queue: str) -> Handler | None:
        path = conf.current().options(queue).handler
        first = queue not in self._missing
        self._missing[queue] = time.monotonic() + TRY_AGAIN
        if path is None:
            if first:
                logger.warning(
                    "Queue %s has jobs and no handler: they wait. Give the worker a handler, or "
                    "set NOBROKER['QUEUES'][%r]['HANDLER'].",
                    queue,
                    queue,
                    extra={"queue": queue},
                )
            return None
        try:
            self._found[queue] = Handler.of(path)
        except (Exception, SystemExit) as error:
            # Whatever the module does while it is imported, its jobs wait, and only they.
            if first:
                logger.error(
                    "The handler %s of queue %s cannot be imported: %s: %s. Its jobs wait.",
                    path,
                    queue,
                    type(error).__name__,
                    error,
                    extra={"queue": queue},
                )
            return None
        logger.info("Queue %s is handled by %s.", queue, path, extra={"queue": queue})
        return self._found[queue]


def _import(path: str) -> Any:
    """Import `package.module.function` or `package.module:function`."""
    module, colon, name = path.partition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    if not module or not name:
        raise HandlerNotFound(f"{path!r:.200} is not the dotted path of a function.")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise HandlerNotFound(f"There is no module {module} for the handler {path}.") from error
        raise
    for part in name.split("."):
        if not hasattr(found, part):
            raise HandlerNotFound(f"The module {module} has no {name} for the handler {path}.")
        found = getattr(found, part)
    return found


def _name_of(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )
