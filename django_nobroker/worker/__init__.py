"""Worker: leases jobs of one or more queues, runs them, and settles them."""

from __future__ import annotations

import os
import platform
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import django
from django.db import connections

from .. import __version__, conf, sql
from ..failures import clean
from ..models import WorkerProcess
from ..queue import Queue
from ..transitions import refuse_transaction
from .crew import Crew
from .handlers import Handlers
from .ledger import WorkerStats
from .options import WorkerOptions

__all__ = ["Worker", "WorkerOptions", "WorkerStats"]

STOPPING = (signal.SIGINT, signal.SIGTERM)


class Worker:
    """Runs the jobs of a queue, with `handler` or the HANDLER of the queue's settings.

    `handler` is a function that takes a job, plain or async, or a dotted path to one. Up to
    `concurrency` jobs run at a time: plain handlers on threads, async ones on an event loop.
    `idle_timeout` ends the run so many seconds after the last moment when a job was due, leased
    or waiting for a retry. Durations are seconds or timedeltas.

    Raises QueueError for values out of range, HandlerNotFound for a path that leads nowhere.
    """

    def __init__(
        self,
        queue: Queue | str,
        handler: Callable[..., Any] | str | None = None,
        *,
        concurrency: int = 1,
        poll_interval: float | timedelta = 0.1,
        max_jobs: int | None = None,
        idle_timeout: float | timedelta | None = None,
        handle_signals: bool = True,
    ) -> None:
        queue = queue if isinstance(queue, Queue) else Queue(queue)
        self._set_up(
            WorkerOptions.checked(
                queues=[queue.name],
                concurrency=concurrency,
                poll_interval=poll_interval,
                max_jobs=max_jobs,
                idle_timeout=idle_timeout,
                handle_signals=handle_signals,
            ),
            handler,
            queue.alias,
            queue,
        )

    @classmethod
    def serving(
        cls, options: WorkerOptions, handler: Any = None, *, using: str | None = None
    ) -> Worker:
        """Return a worker for several queues, with all the limits there are."""
        worker = cls.__new__(cls)
        worker._set_up(options, handler, sql.database(using), None)
        return worker

    def _set_up(
        self, options: WorkerOptions, handler: Any, alias: str, queue: Queue | None
    ) -> None:
        self.options = options
        self.alias = alias
        self.identity = new_identity()
        self._has_run = False
        # Whether a run ended before its handlers: Python would wait for their threads at its end.
        self.gave_up = False
        # Called once signals are listened to, before the first lease.
        self.on_start: Callable[[], None] | None = None
        self._handlers = Handlers(handler)
        self._queue = queue
        self._crew: Crew | None = None
        self._stop_asked = False

    def run(self, *, inline: bool = False) -> WorkerStats:
        """Work until stopped; return what was done.

        SIGINT or SIGTERM lets what runs finish and settle; a second one leaves at once. Inside a
        test's own transaction, on an in-memory database, and where `inline` asks for it, it works
        without threads, on the caller's connection. Raises LeaseInTransaction inside any other
        transaction.
        """
        connection = connections[self.alias]
        refuse_transaction(connection)
        if self._has_run:
            # Each start is somebody new: what an earlier one held is not this one's.
            self.identity = new_identity()
        self._has_run = True
        crew = Crew(self.alias, self._process(), self.options, self._handlers, self._queue_options)
        self._crew = crew
        if self._stop_asked:
            crew.stop()
        try:
            with self._signals(crew):
                if self.on_start is not None:
                    self.on_start()
                dialect = sql.dialect(connection)
                if inline or connection.in_atomic_block or dialect.is_private(connection):
                    return crew.work_inline()
                # From here on this thread only watches.
                connection.close()
                return crew.work()
        finally:
            self.gave_up = crew.gave_up
            self._crew = None
            self._stop_asked = False

    def stop(self) -> None:
        """Let what runs finish, then end the run. May be called from any thread."""
        self._stop_asked = True
        if self._crew is not None:
            self._crew.stop()

    def _queue_options(self, name: str) -> conf.QueueOptions:
        if self._queue is not None and name == self._queue.name:
            return self._queue.options
        return conf.current().options(name)

    def _process(self) -> WorkerProcess:
        served: Sequence[str] = self.options.queues or ("*",)
        return WorkerProcess(
            identity=self.identity,
            name=clean(self.options.name, 190),
            host=clean(socket.gethostname(), 250),
            pid=os.getpid(),
            queues=", ".join(served),
            concurrency=self.options.concurrency,
            versions=(
                f"django-nobroker {__version__}, Django {django.__version__}, "
                f"Python {platform.python_version()}"
            ),
        )

    @contextmanager
    def _signals(self, crew: Crew) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM; leave at once on the second."""
        main = threading.current_thread() is threading.main_thread()
        if not (self.options.handle_signals and main):
            yield
            return
        received = []

        def receive(number: int, frame: object) -> None:
            received.append(number)
            crew.stop(hard=len(received) > 1)

        before = {number: signal.signal(number, receive) for number in STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def new_identity() -> str:
    """Return who works: host, process, and a word that no other start has."""
    return f"{clean(socket.gethostname(), 100)}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
