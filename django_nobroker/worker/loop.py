"""Runs `async def` handlers on one event loop, in a thread of its own.

Whatever a handler raises stays in its own task: SystemExit or KeyboardInterrupt would
otherwise end the loop, and with it every other job.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

from .holdings import Held, Holdings
from .parts import Part
from .runner import Ended

logger = logging.getLogger("django_nobroker")

STOP_GRACE = 1.0


class LoopRunner:
    """Up to `concurrency` coroutines at a time; the loop starts with the first job."""

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
        self._thread = Part("nobroker-loop", self._run, crashed)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[Held] = deque()
        self._tasks: dict[asyncio.Task[None], Held] = {}
        self._ready = threading.Event()

    def submit(self, held: Held) -> None:
        """Have a job run as soon as there is room on the loop."""
        if self._loop is None:
            self._thread.start()
            self._ready.wait()
            if self._loop is None:
                # It died before it was ready: the worker ends, and gives the job back.
                return
        self._waiting.append(held)
        self._call(self._fill)

    def withdraw(self) -> list[Held]:
        """Take back the jobs that have not been started."""
        unstarted = []
        while self._waiting:
            try:
                unstarted.append(self._waiting.popleft())
            except IndexError:  # the loop took the last one
                break
        return unstarted

    def stop(self, timeout: float | None = None) -> bool:
        """End the loop when its tasks are through, cancelling them after `timeout` seconds."""
        if self._loop is None or not self._thread.is_alive():
            return True
        until = None if timeout is None else time.monotonic() + timeout
        while self._tasks and (until is None or time.monotonic() < until):
            time.sleep(0.01)
        for held in list(self._tasks.values()):
            held.interrupted = True
            if held.cancel is not None:
                held.cancel()
        until = time.monotonic() + STOP_GRACE
        while self._tasks and time.monotonic() < until:
            time.sleep(0.01)
        self._call(self._loop.stop)
        self._thread.join(STOP_GRACE)
        return not self._tasks

    def _call(self, function: Callable[..., Any]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)

    def _run(self) -> None:
        try:
            self._loop = asyncio.new_event_loop()
        finally:
            self._ready.set()
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        if not self._tasks:
            self._loop.close()

    def _fill(self) -> None:
        while self._waiting and len(self._tasks) < self._concurrency:
            held = self._waiting.popleft()
            task = asyncio.ensure_future(self._one(held), loop=self._loop)
            self._tasks[task] = held
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._fill()

    async def _one(self, held: Held) -> None:
        if held.lapsed:
            self._holdings.finished(held)
            self._ended((held, None, None))
            return
        held.started = time.monotonic()
        error = await run_async(held, self._loop)
        self._holdings.finished(held)
        self._ended((held, error, time.monotonic() - held.started))


async def run_async(held: Held, loop: Any = None) -> BaseException | None:
    """Await an async handler in a task of its own; return what it raised, whatever it is."""
    task = asyncio.ensure_future(_caught(held))
    if loop is not None:
        held.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
    try:
        return await task
    except asyncio.CancelledError as error:
        # Before the handler's first step, or by our own end.
        return error
    finally:
        held.cancel = None


async def _caught(held: Held) -> BaseException | None:
    handler: Any = held.handler
    try:
        # Of its own, so that no thread is kept while the handler runs.
        async with OwnThread():
            args, kwargs = await handler.arguments_on_loop(held)
        async with OwnThread():
            held.result = handler.stored(held, await handler.function(*args, **kwargs))
    except BaseException as error:
        return error
    return None


class OwnThread:
    """Lets sync code that is called inside have a thread of its own, with its own connections.

    No generator: one that is left behind by a loop which has ended would be closed elsewhere.
    """

    def __init__(self) -> None:
        self._context: Any = ThreadSensitiveContext()

    async def __aenter__(self) -> None:
        await self._context.__aenter__()

    async def __aexit__(self, *exc_info: Any) -> None:
        try:
            # Only if sync code was called has the context a thread, with connections to close.
            if self._context in SyncToAsync.context_to_thread_executor:
                await sync_to_async(connections.close_all)()
        finally:
            await self._context.__aexit__(*exc_info)
