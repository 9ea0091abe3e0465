"""How a handler or a task wants its failures treated, said where the function is.

The policy is an attribute of the plain function, so it needs no version of Django and
survives a change of backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from .backoff import BackoffPolicy, checked_backoff
from .exceptions import QueueError
from .integers import whole_number

MOST_ATTEMPTS = 32_767
ATTRIBUTE = "nobroker_policy"
Exceptions = type[BaseException] | tuple[type[BaseException], ...]
Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The choices of one function; None is left to the queue and the project's settings."""

    max_attempts: int | None = None
    backoff: BackoffPolicy | None = None
    # Whether the function's writes and the ack are one transaction on the job's database.
    atomic: bool = False
    retry_on: Exceptions = Exception
    dead_on: Exceptions = ()

    def retries(self, error: BaseException) -> bool:
        """Return whether another attempt may help; `dead_on` beats `retry_on`."""
        return not isinstance(error, self.dead_on) and (
            isinstance(error, self.retry_on) or not isinstance(error, Exception)
        )


def policy(
    *,
    max_attempts: int | None = None,
    backoff: BackoffPolicy | dict[str, float] | None = None,
    atomic: bool = False,
    retry_on: Exceptions = Exception,
    dead_on: Exceptions = (),
) -> Callable[[Handler], Handler]:
    """Attach a policy to a handler or, below `@task`, to a task's function.

    `retry_on` and `dead_on` are exception classes, or tuples of them: an error outside
    `retry_on`, or in `dead_on`, makes the job dead at once. Errors that are not Exceptions
    (SystemExit, KeyboardInterrupt, CancelledError) count as failed attempts and are retried
    unless `dead_on` names them. `max_attempts` here counts for tasks; that of a payload job
    comes from its queue. With `atomic` the function's writes to the job's database and the end
    of the job are one transaction: both happen, or neither.

    Raises TypeError above `@task`, and QueueError for values out of range.
    """
    if not isinstance(atomic, bool):
        raise QueueError(f"atomic must be True or False, not {atomic!r:.80}.")
    chosen = Policy(
        max_attempts=checked_attempts(max_attempts),
        backoff=None if backoff is None else checked_backoff(backoff, "backoff"),
        atomic=atomic,
        retry_on=_checked_exceptions(retry_on, "retry_on"),
        dead_on=_checked_exceptions(dead_on, "dead_on"),
    )

    def attach(function: Handler) -> Handler:
        if not callable(function) or hasattr(function, "module_path"):
            raise TypeError(
                "@policy goes below @task, on the function itself: "
                "@task() on the first line, @policy(...) on the second."
            )
        setattr(function, ATTRIBUTE, chosen)
        return function

    return attach


def policy_of(function: Any) -> Policy:
    """Return the policy that `function` carries, or the one that leaves all to the queue."""
    found = getattr(function, ATTRIBUTE, None)
    return found if isinstance(found, Policy) else Policy()


def checked_attempts(value: Any, name: str = "max_attempts") -> int | None:
    """Return a number of attempts, or None; raise QueueError for anything but 1 to 32767."""
    return None if value is None else whole_number(value, name, least=1, most=MOST_ATTEMPTS)


def _checked_exceptions(value: Any, name: str) -> Any:
    classes = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(item, type) and issubclass(item, BaseException) for item in classes):
        raise QueueError(
            f"{name} must be an exception class or a tuple of them, not {value!r:.80}."
        )
    return value
