"""Which function runs a payload job: the worker's own handler, or the HANDLER of its queue."""

from __future__ import annotations

import importlib
import inspect
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from .. import conf
from ..exceptions import HandlerNotFound, SerializationError
from ..policies import Policy, policy_of

if TYPE_CHECKING:
    from .holdings import Held

logger = logging.getLogger("django_nobroker")

UNSTARTED: dict[Callable[[Any], bool], str] = {
    inspect.iscoroutine: "coroutine",
    inspect.isgenerator: "generator",
    inspect.isasyncgen: "async generator",
}
# Seconds until a handler that could not be imported is tried again: a deploy may be under way.
TRY_AGAIN = 5.0


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that takes a job, and what it wants done with its failures."""

    function: Callable[..., Any]
    name: str
    is_async: bool
    policy: Policy

    @property
    def on_loop(self) -> bool:
        """Whether it runs on the event loop: an atomic one needs a thread for its transaction."""
        return self.is_async and not self.policy.atomic

    def arguments(self, held: Held) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what to call the function with; raise for a payload that is not JSON."""
        try:
            _: Any = held.job.payload
        except SerializationError:
            held.fault = Fault.HOPELESS
            raise
        return (held.job,), {}

    async def arguments_on_loop(self, held: Held) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what `arguments` returns."""
        return self.arguments(held)

    def stored(self, held: Held, value: Any) -> str | None:
        """Return what is kept of the value that the function returned: nothing."""
        refuse_unstarted(self.name, value)
        return None

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


class Fault(Enum):
    """Why a job did not end as its handler's own success or error."""

    # No attempt could succeed: a payload that cannot be read, a result that cannot be kept.
    HOPELESS = auto()
    # Another release may know what to do.
    UNKNOWN = auto()
    # The transaction of an atomic handler lost against another one.
    CONFLICT = auto()


class Handlers:
    """The handlers of one worker, each imported when its queue is first met.

    Not while the worker's turn at the database is held: an import may take its time.
    """

    def __init__(self, handler: Any = None) -> None:
        self._own = None if handler is None else Handler.of(handler)
        self._found: dict[str, Handler] = {}
        self._missing: dict[str, float] = {}
        self._wanted: set[str] = set()
        self._told: set[str] = set()

    def of_queue(self, queue: str) -> Handler | None:
        """Return what runs the payload jobs of a queue, or None: then they are not leased."""
        if self._own is not None:
            return self._own
        if queue not in self._found and time.monotonic() >= self._missing.get(queue, 0.0):
            self._wanted.add(queue)
        return self._found.get(queue)

    def is_lacking(self, queue: str) -> bool:
        """Return whether no setting names a handler for a queue, and that has not been told yet."""
        return queue in self._missing and queue not in self._told

    def tell_lacking(self, queue: str) -> None:
        """Say, once, that the payload jobs of a queue wait for want of a handler."""
        self._told.add(queue)
        if conf.current().options(queue).handler is None:
            logger.warning(
                "Queue %s has jobs and no handler: they wait. Give the worker a handler, or "
                "set NOBROKER['QUEUES'][%r]['HANDLER'].",
                queue,
                queue,
                extra={"queue": queue},
            )

    def look_up(self) -> bool:
        """Import the handlers that were asked for and not at hand; return whether there is one."""
        wanted, self._wanted = self._wanted, set()
        found = [self._look_up(queue) for queue in sorted(wanted)]
        return any(handler is not None for handler in found)

    def _look_up(self, queue: str) -> Handler | None:
        path = conf.current().options(queue).handler
        first = queue not in self._missing
        self._missing[queue] = time.monotonic() + TRY_AGAIN
        if path is None:
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


def refuse_unstarted(name: str, result: Any) -> None:
    """Raise TypeError for what a handler returns when its body has not run."""
    for is_unstarted, kind in UNSTARTED.items():
        if is_unstarted(result):
            if hasattr(result, "close"):
                result.close()
            raise TypeError(
                f"The handler {name} returned a {kind} that has not run. Make it `async def`, "
                "a decorator around it too, and use no `yield` in it."
            )


def _name_of(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )
