"""An exception made into text that every database can hold, whatever the exception is.

Nothing in here raises: the error of a job must never become the error of its worker.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

MAX_CLASS = 200
MAX_MESSAGE = 4_000
MAX_TRACEBACK = 32_000
MAX_FRAMES = 50


@dataclass(frozen=True, slots=True)
class Failure:
    """What is kept of a failed attempt: dotted class, message and traceback, cut to size."""

    error_class: str = ""
    message: str = ""
    traceback: str = ""

    @classmethod
    def of(cls, error: object) -> Failure:
        """Return what is to be kept of an exception, or of a text that says what went wrong."""
        if error is None:
            return cls()
        if not isinstance(error, BaseException):
            return cls(message=clean(_text_of(error), MAX_MESSAGE))
        name = type(error).__qualname__
        text = clean(_text_of(error), MAX_MESSAGE - MAX_CLASS - 2)
        return cls(
            error_class=clean(f"{type(error).__module__}.{name}", MAX_CLASS),
            message=f"{clean(name, MAX_CLASS)}: {text}" if text else clean(name, MAX_CLASS),
            traceback=clean(_traceback_of(error), MAX_TRACEBACK),
        )


def clean(text: str, limit: int) -> str:
    """Return `text` without NUL and lone surrogates, cut in its middle to `limit` characters."""
    if len(text) > limit:
        # Cut before escaping: the text may be of any size.
        mark = f"\n… {len(text) - limit:,} characters cut …\n"
        half = (limit - len(mark)) // 2
        text = f"{text[:half]}{mark}{text[-half:]}"
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else clean(text, limit)


def _text_of(value: object) -> str:
    try:
        return str(value)
    except BaseException as error:  # a handler's exception may run any code in __str__
        return f"<{type(value).__name__} whose text cannot be had: {type(error).__name__}>"


def _traceback_of(error: BaseException) -> str:
    """Return the last frames of the error and of its causes, groups included."""
    try:
        told = traceback.TracebackException.from_exception(
            error, limit=-MAX_FRAMES, max_group_width=10, max_group_depth=5
        )
        return "".join(told.format())
    except BaseException as problem:
        return f"<no traceback: {type(problem).__name__}>"
