"""Which lanes to claim from, and in which order: the reading of what waits in the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .. import sql
from .options import WorkerOptions

# Lanes are read again when what was read is this many times older than the reading took.
FRESH = 20.0
FRESH_AT_MOST = 1.0
# A reading that takes fewer seconds is repeated after every wait, so that what came meanwhile
# with a higher rank is leased first.
CHEAP = 0.01
# Seconds for which a lane that was due and gave nothing is left alone: at first, and at most.
BARREN_FOR = 0.01
BARREN_AT_MOST = 1.0
# Seconds after its time at which a job is sure to be due, whatever was rounded on the way.
MARGIN = 0.002


class Lanes:
    """The due lanes of a worker's queues, read anew when the last reading is out of date.

    Queues that are named are served in strict order. When all are served they take turns, one
    claim each, so that a flood in one never starves another.
    """

    def __init__(
        self, options: WorkerOptions, read: Callable[[Sequence[str] | None], list[sql.Lane]]
    ):
        self._options = options
        self._read = read
        self._lanes: list[sql.Lane] = []
        self._read_at = 0.0
        self._fresh_until = 0.0
        self._took = 0.0
        # How often the reading was declared out of date, also while it was under way.
        self._expired = 0
        self._barren: dict[sql.Lane, tuple[object, float, float]] = {}
        self._last_queue = ""

    def due(self) -> list[sql.Lane]:
        """Return the lanes with jobs that are due now, the one to claim from first."""
        if time.monotonic() >= self._fresh_until:
            self._refresh()
        age = time.monotonic() - self._read_at
        due = [lane for lane in self._lanes if lane.due_in <= age and not self._is_barren(lane)]
        return sorted(due, key=lambda lane: (self._rank(lane.queue), -lane.priority, lane.due_in))

    def coming(self, seconds: float) -> list[sql.Lane]:
        """Return the lanes with jobs that are due in so many seconds, whatever they gave lately."""
        self._refresh()
        return [lane for lane in self._lanes if lane.due_in <= seconds]

    def next_due(self) -> float | None:
        """Return the seconds until the next job is due, as of the last reading, or None."""
        now = time.monotonic()
        ahead = [self._read_at + lane.due_in + MARGIN for lane in self._lanes]
        ahead = [instant for instant in ahead if instant > now]
        ahead += [until for _, until, _ in self._barren.values() if until > now]
        return min(ahead) - now if ahead else None

    def served(self, queue: str) -> None:
        """Take note that a queue had its turn."""
        self._last_queue = queue

    def grow_old(self) -> None:
        """Have the lanes read again after a wait, unless reading them takes its time."""
        if self._took < CHEAP:
            self.expire()

    def barren(self, lane: sql.Lane) -> None:
        """Take note that a due lane had nothing to lease, whatever it is that stands at its head.

        A row that this worker cannot run, or one that another transaction holds: it is not asked
        for again in a moment unless there is something new at the head.
        """
        head, _, pause = self._barren.get(lane, (None, 0.0, 0.0))
        pause = min(2 * pause, BARREN_AT_MOST) if head == lane.head and pause else BARREN_FOR
        self._barren[lane] = (lane.head, time.monotonic() + pause, pause)

    def forgive(self) -> None:
        """Have every lane asked again: this worker can run more than it could."""
        self._barren.clear()
        self.expire()

    def _is_barren(self, lane: sql.Lane) -> bool:
        head, until, _ = self._barren.get(lane, (None, 0.0, 0.0))
        return head == lane.head and time.monotonic() < until

    def expire(self) -> None:
        """Have the lanes read again at the next question: one has run dry."""
        self._fresh_until = 0.0
        self._expired += 1

    def _refresh(self) -> None:
        began, expired = time.monotonic(), self._expired
        found = self._read(self._options.queues)
        heads = {lane: lane.head for lane in found}
        self._barren = {
            lane: seen for lane, seen in self._barren.items() if heads.get(lane) == seen[0]
        }
        self._lanes = [lane for lane in found if lane.queue not in self._options.exclude]
        self._read_at = time.monotonic()
        self._took = self._read_at - began
        if expired == self._expired:
            self._fresh_until = self._read_at + min(FRESH * self._took, FRESH_AT_MOST)

    def _rank(self, queue: str) -> tuple[int, str]:
        if self._options.queues is not None:
            return self._options.queues.index(queue), ""
        # In turn: the names after the one served last come first.
        return (0 if queue > self._last_queue else 1), queue
