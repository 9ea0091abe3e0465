"""What a worker holds: every job it has leased and not yet settled.

The only state that the parts of a worker share. The claimer adds, the runners start, the
keeper renews, the settler removes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..conf import QueueOptions
from ..models import Job
from .handlers import Fault, Handler
from .tasks import NoHandler, TaskHandler

AnyHandler = Handler | TaskHandler | NoHandler


class Held:
    """One lease of a job, and what this worker knows of it.

    Told apart by `key`: the same worker may lease the same job again while an earlier lease of
    its own is not yet let go of.
    """

    __slots__ = (
        "cancel",
        "deadline",
        "ended",
        "fault",
        "handler",
        "interrupted",
        "is_finished",
        "is_locked",
        "is_lost",
        "is_settled",
        "job",
        "key",
        "leased",
        "options",
        "result",
        "solo",
        "started",
        "task_result",
        "warned",
    )

    def __init__(
        self,
        job: Job,
        handler: AnyHandler,
        options: QueueOptions,
        *,
        deadline: float,
        solo: bool,
    ) -> None:
        self.job = job
        self.key = (job.id, job.lease_fence)
        self.handler = handler
        self.options = options
        # By the monotonic clock, from before the lease was asked for: never later than the row's.
        self.deadline = deadline
        self.leased = deadline - options.visibility_timeout
        self.solo = solo
        self.started: float | None = None
        self.ended = 0.0
        self.warned = False
        self.is_finished = False
        # Its handler's own transaction holds the row: nobody can renew or take it.
        self.is_locked = False
        # The database has said so; `job.lease_lost` may only be a fear.
        self.is_lost = False
        # Its own transaction has done so: there is nothing left to write.
        self.is_settled = False
        self.fault: Fault | None = None
        # What is kept of the value that a task returned, as JSON.
        self.result: str | None = None
        # What Django's signals tell of a task; None until it starts.
        self.task_result: Any = None
        # Cancelled because the worker ends, through no fault of the job.
        self.interrupted = False
        # Set while an async handler runs.
        self.cancel: Callable[[], Any] | None = None

    @property
    def lapsed(self) -> bool:
        """Whether the lease has run out, as far as this process can tell."""
        return self.job.lease_lost or time.monotonic() > self.deadline

    def lose(self) -> None:
        """Note that the job is no longer ours; stop its handler if that can be stopped."""
        self.is_lost = self.job.lease_lost = True
        cancel = self.cancel
        if cancel is not None:
            cancel()


class Holdings:
    """The jobs held, counted so that the claimer knows how many more it can start soon."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], Held] = {}
        # By the number of the job, the lease taken in last.
        self._latest: dict[int, Held] = {}
        self._unfinished = 0
        self._solo = 0
        self._moved_at = time.monotonic()
        self._wake = wake
        # The claimer is woken when no more than so many are unfinished, or as soon as something
        # is settled.
        self.wake_at = 0
        self.wake_when_settled = False

    def add(self, held: Sequence[Held]) -> None:
        """Take in jobs that have just been leased; what is held of them from before is lost."""
        self._moved_at = time.monotonic()
        for one in held:
            if (older := self._latest.get(one.job.id)) is not None:
                older.lose()
        with self._lock:
            for one in held:
                self._held[one.key] = self._latest[one.job.id] = one
                self._unfinished += 1
                self._solo += one.solo

    def finished(self, held: Held) -> None:
        """Note that a job's handler is through, or that it will not be started."""
        held.ended = time.monotonic()
        if held.started is not None:
            # One that is given back unstarted says nothing of how fast jobs end.
            self._moved_at = held.ended
        with self._lock:
            held.is_finished = True
            self._unfinished -= 1
        if self._unfinished <= self.wake_at:
            self._wake()

    def settled(self, held: Iterable[Held]) -> None:
        """Let go of jobs that are settled or lost."""
        with self._lock:
            for one in held:
                if self._held.pop(one.key, None) is not None:
                    self._solo -= one.solo
                    if self._latest.get(one.job.id) is one:
                        del self._latest[one.job.id]
        if self.wake_when_settled:
            self._wake()

    def is_stalled(self, seconds: float) -> bool:
        """Return whether jobs run, and for so long none has been taken in or has finished."""
        return self._unfinished > 0 and time.monotonic() - self._moved_at > seconds

    def lapsed_now(self) -> list[Held]:
        """Return the jobs whose lease has run out since the last call, marked as perhaps lost."""
        lapsed = [
            held
            for held in self.all()
            if held.lapsed and not (held.job.lease_lost or held.is_locked)
        ]
        for held in lapsed:
            held.job.lease_lost = True
        return lapsed

    @property
    def unfinished(self) -> int:
        """How many jobs wait for a runner or run."""
        return self._unfinished

    @property
    def has_solo(self) -> bool:
        """Whether a job is held that is to have no neighbour leased after it."""
        return self._solo > 0

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[Held]:
        """Return all that is held now."""
        with self._lock:
            return list(self._held.values())
