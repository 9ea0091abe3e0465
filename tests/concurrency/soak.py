"""The long versions of the tests beside it, and their figures.

    python runtests.py --database postgresql --parallel 1 tests.concurrency.soak

No run of the suite takes them: they need a quarter of an hour for each database.
"""

import sys
import time

from django_nobroker import Job
from django_nobroker.models import Attempt

from . import (
    stage,
    test_contention,
    test_crashes,
    test_exactly_once,
    test_load,
    test_signals,
)

# Many times as much to do, on a machine that may be busy.
stage.DEADLINE = 600.0


class Figures:
    """Tells after each test how long it took, and what it left in the tables."""

    def setUp(self):
        super().setUp()
        self.began = time.monotonic()
        self.addCleanup(self.tell)

    def tell(self):
        seconds = time.monotonic() - self.began
        name = f"{type(self).__name__}.{self._testMethodName}"
        leased = sum(
            program.totals["leased"] for program in self.programs if " ended: " in program.said
        )
        more = Job.objects.filter(attempts__gt=1).count()
        sys.stderr.write(
            f"\n{name}: {seconds:.1f} s, jobs {self.states()}, {more} of them run more than once; "
            f"{Attempt.objects.count()} failed attempts; {len(self.programs)} processes; "
            f"{leased} leases by workers that were not killed\n"
        )


class LongLoadTests(Figures, test_load.LoadTests):
    producers = 8
    jobs = 500


class LongKillTests(Figures, test_load.KillTests):
    producers = 8
    jobs = 500
    workers = 4
    seconds = 20


class LongPoisonTests(Figures, test_crashes.PoisonTests):
    innocents = 1000


class LongMixedLoadTests(Figures, test_contention.MixedLoadTests):
    producers = 8
    jobs = 600
    workers = 8


class LongCancelTests(Figures, test_contention.CancelUnderLoadTests):
    jobs = 10_000


class LongIsolationTests(Figures, test_contention.StrictIsolationTests):
    jobs = 1000


class LongRestartTests(Figures, test_signals.RestartTests):
    jobs = 5000
    restarts = 100
    commit = 1.0


class LongExactlyOnceTests(Figures, test_exactly_once.ExactlyOnceTests):
    jobs = 300
    kills = 200


class LongExactlyOnceSlowTests(Figures, test_exactly_once.ExactlyOnceTests):
    """Handlers that outlast their leases."""

    jobs = 300
    takes = (0.5, 2.0)
    every = 3.0
    kills = 20


class LongAtLeastOnceTests(Figures, test_exactly_once.ExactlyOnceTests):
    """The same jobs without `atomic`: none is lost, and some have their effect twice."""

    handler = "count"
    jobs = 300
    kills = 200

    def test_every_counter_is_exactly_1(self):
        self.kill_and_finish()
        counters = self.counters()
        self.assertNotIn(0, counters)
        sys.stderr.write(f"\njobs by how often they had their effect: {counters}\n")


class LongAtLeastOnceSlowTests(LongAtLeastOnceTests):
    takes = (0.5, 2.0)
    every = 3.0
    kills = 20
