"""An exception made into text that every database can hold, whatever the exception is.

Nothing in here raises: the error of a job must never become the error of its worker.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

MAX_CLASS = 200
MAX_MESSAGE = 4_000
MAX_TRACEBACK = 32_000


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
    frames = "".join(_frames_of(error))
    return f"{frames}{type(error).__qualname__}: {clean(_text_of(error), MAX_MESSAGE)}"


def _frames_of(error: BaseException) -> list[str]:
    try:
        chain = _chain_of(error)
        parts = []
        for link in chain:
            if link is not error:
                parts.append(f"{type(link).__qualname__}: {clean(_text_of(link), 500)}\n\n")
            parts.extend(traceback.format_tb(link.__traceback__, limit=-50))
        return ["Traceback (most recent call last):\n", *parts] if parts else []
    except BaseException as problem:
        return [f"<no traceback: {type(problem).__name__}>\n"]


def _chain_of(error: BaseException) -> list[BaseException]:
    """Return the causes of an error, the first one first, at most ten."""
    chain = [error]
    while len(chain) < 10:
        link = chain[0].__cause__ or (
            None if chain[0].__suppress_context__ else chain[0].__context__
        )
        if link is None or link in chain:
            break
        chain.insert(0, link)
    return chain
