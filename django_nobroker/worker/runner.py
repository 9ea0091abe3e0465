"""Runs plain handlers on threads: takes from the inbox, puts how it ended into the outbox."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any

from .atomically import run_atomic
from .holdings import Held, Holdings
from .parts import Part
from .sessions import Sessions

# A job, the error that its handler raised (None: it returned), and the seconds it took.
# An unstarted job has no seconds.
Ended = tuple[Held, BaseException | None, float | None]


class Runner:
    """Up to `concurrency` threads, started when there is work for them."""

    def __init__(
        self,
        concurrency: int,
        holdings: Holdings,
        ended: Callable[[Ended], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._concurrency = concurrency
        self._holdings = holdings
        self._ended = ended
        self._crashed = crashed
        self._inbox: queue.SimpleQueue[Held | None] = queue.SimpleQueue()
        self._threads: list[Part] = []

    def submit(self, held: Held) -> None:
        """Have a job run as soon as a thread is free."""
        self._inbox.put(held)
        if len(self._threads) < self._concurrency:
            thread = Part(f"nobroker-runner-{len(self._threads)}", self._run, self._crashed)
            self._threads.append(thread)
            thread.start()

    def withdraw(self) -> list[Held]:
        """Take back the jobs that have not been started."""
        unstarted: list[Held] = []
        while True:
            try:
                held = self._inbox.get_nowait()
            except queue.Empty:
                return unstarted
            if held is not None:
                unstarted.append(held)

    def stop(self, timeout: float | None = None) -> bool:
        """End the threads when they are through; return whether they are."""
        for _ in self._threads:
            self._inbox.put(None)
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        sessions = Sessions()
        try:
            while (held := self._inbox.get()) is not None:
                self._ended(self._one(held, sessions))
        finally:
            sessions.close()

    def _one(self, held: Held, sessions: Sessions) -> Ended:
        if held.lapsed:
            self._holdings.finished(held)
            return held, None, None
        sessions.before_job()
        held.started = time.monotonic()
        error = run_plain(held)
        seconds = time.monotonic() - held.started
        sessions.after_job()
        self._holdings.finished(held)
        return held, error, seconds


def run_plain(held: Held) -> BaseException | None:
    """Run a job on this thread; return what it raised, whatever that is."""
    handler: Any = held.handler
    try:
        args, kwargs = handler.arguments(held)
        if handler.policy.atomic:
            run_atomic(held, args, kwargs)
        else:
            held.result = handler.stored(held, handler.function(*args, **kwargs))
    except BaseException as error:
        return error
    return None
