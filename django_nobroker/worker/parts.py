"""Threads of a worker whose death is noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.db import connections


class Part(threading.Thread):
    """A daemon thread that reports an error which ends it, so that no worker lives on in part."""

    def __init__(
        self, name: str, work: Callable[[], None], crashed: Callable[[BaseException], None]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._crashed = crashed

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._crashed(error)
        finally:
            # A part that dies leaves no session behind for the server to keep.
            connections.close_all()
