"""The parts of a worker on a bench: put together, but started by none but the test."""

from django_nobroker import conf
from django_nobroker.models import WorkerProcess
from django_nobroker.worker.claimer import Claimer
from django_nobroker.worker.handlers import Handlers
from django_nobroker.worker.holdings import Holdings
from django_nobroker.worker.keeper import Keeper
from django_nobroker.worker.ledger import Ledger
from django_nobroker.worker.limits import Limits
from django_nobroker.worker.link import Link
from django_nobroker.worker.options import WorkerOptions
from django_nobroker.worker.pace import Pace
from django_nobroker.worker.settler import Settler

ALIAS = "default"


class Bench:
    """One worker's parts, all on the connection of the calling thread."""

    def __init__(self, handler=print, **options):
        self.options = WorkerOptions.checked(**options)
        self.wakes = self.returns = 0
        self.finished = []
        self.holdings = Holdings(self._woken)
        self.ledger = Ledger()
        self.pace = Pace(self.options.concurrency)
        self.process = WorkerProcess(identity="bench", queues="*")
        self.claimer = Claimer(
            ALIAS,
            "bench",
            self.options,
            Handlers(handler),
            self.holdings,
            self.ledger,
            self.pace,
            queue_options,
        )
        self.limits = Limits(ALIAS, self.options, self.claimer)
        self.settler = Settler(
            ALIAS, self.holdings, self.ledger, self.pace, self._returned, self.finished.append
        )
        self.keeper = Keeper(
            ALIAS,
            self.process,
            self.options,
            self.holdings,
            self.ledger,
            queue_options,
            self._returned,
        )
        self.link = Link(ALIAS, "bench")

    def finish(self, *held, error=None, seconds=0.0001):
        """Let handlers have ended and their jobs be settled, all in one group."""
        for one in held:
            self.holdings.finished(one)
        self.settler.settle_group([(one, error, seconds) for one in held], self.link)

    def _woken(self):
        self.wakes += 1

    def _returned(self):
        self.returns += 1


def queue_options(name):
    """Return what the settings say of a queue."""
    return conf.current().options(name)
