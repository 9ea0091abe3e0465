"""Tells Django's receivers that a task has finished, after the database knows it.

On a thread and a connection of its own: whatever a receiver does, no commit waits for it.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from ..logs import about
from ..models import Job
from ..transitions import moves, settle
from .holdings import Held
from .link import Link, Unreachable
from .parts import Part
from .sessions import Sessions
from .tasks import announce, sender_of

# What ended, what became of it, and its error.
Finished = tuple[Held, settle.Verdict, BaseException | None]
FINAL = (moves.ACK, moves.BURY)
# More than so many waiting: receivers are slower than tasks, and nothing new is leased.
BEHIND = 1000
# How often the row of a task is asked for, if the database does not answer.
TRIES = 5

logger = logging.getLogger("django_nobroker")


class Announcer:
    """Takes what is settled for good, and sends `task_finished` for each task among it."""

    def __init__(self, alias: str, crashed: Callable[[BaseException], None]) -> None:
        self._alias = alias
        self._link = Link(alias, "announcer")
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

    @property
    def is_behind(self) -> bool:
        """Whether so much waits to be announced that no more work should be taken on."""
        return self._finished.qsize() > BEHIND

    @property
    def is_busy(self) -> bool:
        """Whether something is left to be announced."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Announce what is left, then end."""
        if self._thread.ident is not None:
            self._finished.put(None)

    def stop(self, timeout: float) -> None:
        """Wait so many seconds for the end; say what is left unannounced."""
        if self._thread.ident is None:
            return
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.warning(
                "%s finished task(s) were not announced to the receivers of task_finished.",
                self._finished.qsize(),
            )

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
        """Send the signal; whatever a receiver raises goes no further."""
        from django.tasks.signals import task_finished

        held, _, error = finished
        try:
            result = self._result(finished)
            if result is None:
                return
            sender = sender_of(result)
            try:
                if error is not None:
                    # Django's own receiver logs the exception that is being handled.
                    raise error
            except BaseException:
                announce(task_finished, sender, result)
            else:
                announce(task_finished, sender, result)
        except BaseException as problem:
            name = type(problem).__name__
            logger.error(
                "The end of %s was not announced: %s", held.job, name, extra=about(held.job)
            )

    def _result(self, finished: Finished) -> Any:
        """Return the result that tells of the end; None if its row is gone and cannot tell."""
        from .. import results

        held, outcome, _ = finished
        if outcome.move is moves.ACK and held.task_result is not None:
            results.finish(held.task_result, _finished_at(held), held.result)
            return held.task_result
        jobs = Job.objects.using(self._alias).filter(pk=held.job.id)
        for _ in range(TRIES):
            try:
                found = self._link.run(lambda: results.read_many(list(jobs)))
                return found[0] if found else None
            except Unreachable:
                time.sleep(self._link.pause)
        raise Unreachable("the row could not be read")


def _finished_at(held: Held) -> datetime:
    """Return when a job was done, by the clock of its database as far as this process knows it."""
    leased_at: datetime = held.job.leased_at
    return leased_at + timedelta(seconds=max(held.ended - held.leased, 0.0))
