"""Applies verdicts, however often that must be tried, and finds the one that spoils the others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from django.db.models import F

from ..backoff import wait_after
from ..failures import Failure
from ..logs import about
from ..models import Job
from ..transitions import moves, settle
from .holdings import Held
from .link import Link, Unreachable

logger = logging.getLogger("django_nobroker")

# How often in a row a database that answers may refuse the same verdicts.
REFUSALS = 5
# A job, what is to become of it, and the seconds that its handler took.
Pair = tuple[Held, settle.Verdict, float]
# What was applied to each lease, None where it was no longer held. One that is left out was
# abandoned: nobody knows.
Applied = dict[tuple[int, int], settle.Verdict | None]


class Applier:
    """Ends early when it is told to abandon what it is at."""

    def __init__(self, alias: str, abandoned: threading.Event) -> None:
        self._alias = alias
        self._abandoned = abandoned

    def apply(self, pairs: Sequence[Pair], link: Link) -> Applied:
        """Apply the verdicts in one transaction; one by one if they are refused together."""
        verdicts = [outcome for _, outcome, _ in pairs]
        refusals = 0
        while pairs:
            try:
                settled = link.run(lambda: settle.apply(self._alias, verdicts))
            except Exception as error:
                if isinstance(error, Unreachable):
                    # A connection that breaks is nobody's fault; these verdicts are to blame only
                    # if they are refused again and again by a database that answers others.
                    refusals = refusals + 1 if self._is_reachable(link) else 0
                    if refusals < REFUSALS:
                        if self._abandoned.wait(link.pause):
                            return {}
                        continue
                # It is not the database, but something among the verdicts.
                return self._one_by_one(pairs, error, link)
            return {
                held.key: outcome if held.job.id in settled else None for held, outcome, _ in pairs
            }
        return {}

    def _one_by_one(self, pairs: Sequence[Pair], error: Exception, link: Link) -> Applied:
        if len(pairs) == 1:
            return self._rewritten(pairs[0], error, link)
        applied: Applied = {}
        for pair in pairs:
            applied |= self.apply([pair], link)
        return applied

    def _is_reachable(self, link: Link) -> bool:
        """Return whether the database takes another statement: a write, which changes nothing.

        One that is read-only for now, or locked, answers whoever only reads.
        """
        nothing = Job.objects.using(self._alias).filter(pk=0)
        return link.takes(lambda: nothing.update(fence=F("fence")))

    def _rewritten(self, pair: Pair, error: Exception, link: Link) -> Applied:
        """Settle as failed a job whose outcome the database refuses, or leave it to its lease."""
        held, refused, _ = pair
        # Not the text of the error, in which some databases show the whole row.
        name = type(error).__name__
        logger.error("%s cannot be settled as it ended: %s", held.job, name, extra=about(held.job))
        failure = Failure.of(f"its outcome could not be stored: {name}")
        if refused.move is moves.ACK and held.result is not None:
            # It would return the same again.
            outcome = settle.rejected(held.job, failure)
        else:
            delay = wait_after(held.options.backoff, held.job.attempts)
            outcome = settle.nacked(held.job, failure, delay)
        try:
            settled = link.run(lambda: settle.apply(self._alias, [outcome]))
        except Exception as second:
            logger.error(
                "%s is left to its lease: %s",
                held.job,
                type(second).__name__,
                extra=about(held.job),
            )
            return {}
        return {held.key: outcome if held.job.id in settled else None}
