"""A line that says how far something is: a bar on a terminal, plain lines anywhere else."""

import shutil
import time
from typing import Any

BAR = 24
LABEL = 12
# Seconds between two plain lines.
PAUSE = 1.0


class Progress:
    """Use as a context manager, so that whatever is said next begins on a line of its own."""

    def __init__(self, out: Any, label: str, total: int) -> None:
        self._out, self._label, self._total = out, label, total
        self._terminal = out.isatty()
        self._shown = ""
        self._shown_at = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exc_info: Any) -> None:
        if self._terminal:
            self._out.write("\r\x1b[K", ending="")
            self._out.flush()

    def show(self, done: int, note: str = "") -> None:
        """Say that so many of all are done."""
        counted = f"{done} of {self._total}{', ' if note else ''}{note}"
        if counted == self._shown:
            return
        if self._terminal:
            self._draw(done, counted)
        elif done == self._total or time.monotonic() - self._shown_at >= PAUSE:
            self._out.write(f"   {self._label:<{LABEL}} {counted}")
            self._out.flush()
        else:
            return
        self._shown, self._shown_at = counted, time.monotonic()

    def _draw(self, done: int, counted: str) -> None:
        full = BAR * done // max(self._total, 1)
        line = f"   {self._label:<{LABEL}} [{'#' * full}{'.' * (BAR - full)}] {counted}"
        columns = shutil.get_terminal_size().columns
        self._out.write("\r\x1b[K" + line[: columns - 1], ending="")
        self._out.flush()
