"""Tells Django's receivers that a task has finished, after the database knows it.

On a thread and a connection of its own: whatever a receiver does, no commit waits for it.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from ..models import Job
from ..transitions import moves, settle
from .holdings import Held
from .parts import Part
from .sessions import Sessions
from .tasks import announce

# What ended, what became of it, and its error.
Finished = tuple[Held, settle.Verdict, BaseException | None]
FINAL = (moves.ACK, moves.BURY)


class Announcer:
    """Takes what is settled for good, and sends `task_finished` for each task among it."""

    def __init__(self, alias: str, crashed: Callable[[BaseException], None]) -> None:
        self._alias = alias
        self._finished: queue.SimpleQueue[Finished | None] = queue.SimpleQueue()
        self._thread = Part("nobroker-announcer", self._run, crashed)
        # Off in a worker without threads: then `drain` announces.
        self.threaded = True

    def put(self, finished: Finished) -> None:
        """Have a settled job announced, if it is a task and has come to its end."""
        held, outcome, _ = finished
        if not held.job.task or outcome.move not in FINAL:
            return
        self._finished.put(finished)
        if self.threaded and self._thread.ident is None:
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """Announce what is left, for so many seconds at most."""
        if self._thread.ident is not None:
            self._finished.put(None)
            self._thread.join(timeout)

    def drain(self) -> None:
        """Announce all that has been put, on this thread."""
        while not self._finished.empty():
            finished = self._finished.get()
            if finished is not None:
                self._announce(finished)

    def _run(self) -> None:
        sessions = Sessions()
        try:
            while (finished := self._finished.get()) is not None:
                sessions.before_job()
                self._announce(finished)
                sessions.after_job()
        finally:
            sessions.close()

    def _announce(self, finished: Finished) -> None:
        from django.tasks.signals import task_finished

        from .. import backend

        error = finished[2]
        result = self._result(finished)
        if result is None:
            return
        try:
            if error is not None:
                # Django's own receiver logs the exception that is being handled.
                raise error
        except BaseException:
            announce(task_finished, backend.NobrokerBackend, result)
        else:
            announce(task_finished, backend.NobrokerBackend, result)

    def _result(self, finished: Finished) -> Any:
        """Return the result that tells of the end; None if its row is gone and cannot tell."""
        from .. import results

        held, outcome, _ = finished
        if outcome.move is moves.ACK and held.task_result is not None:
            results.finish(held.task_result, _finished_at(held), held.result)
            return held.task_result
        job = Job.objects.using(self._alias).filter(pk=held.job.id).first()
        return None if job is None else results.read(job)


def _finished_at(held: Held) -> datetime:
    """Return when a job was done, by the clock of its database as far as this process knows it."""
    leased_at: datetime = held.job.leased_at
    leased = held.deadline - held.options.visibility_timeout
    return leased_at + timedelta(seconds=max(held.ended - leased, 0.0))
