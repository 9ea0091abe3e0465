"""Where processes are started, watched and ended: the base of every test in this package."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from django.db import connection
from django.test import TransactionTestCase

from django_nobroker import Job, Queue
from tests.processes import alone, environment, spawn

# Seconds after which something hangs; nothing comes near it that does not.
DEADLINE = 60.0
QUICK = {
    "VISIBILITY_TIMEOUT": 2.0,
    "BACKOFF": {"base": 0.1, "factor": 2.0, "max_delay": 1.0},
}


class Program:
    """A process that a test started, and the file that its output goes to."""

    def __init__(self, log, *args, env):
        self.log = log
        with log.open("w") as output:
            self.process = spawn(*args, env=env, stdout=output)

    @property
    def said(self):
        """All of its output so far."""
        return self.log.read_text()

    @property
    def has_ended(self):
        return self.process.poll() is not None

    @property
    def totals(self):
        """The numbers of a worker's last line, by name: "succeeded", "lost leases" ..."""
        line = re.search(r"ended: (.*)\.$", self.said, re.MULTILINE)
        if line is None:
            raise AssertionError(f"The worker told no totals:\n{self.said}")
        return {name: int(n) for name, n in re.findall(r"([a-z][a-z ]*) (\d+)", line[1])}

    def send(self, number):
        """Send a signal, if the process is still there to get it."""
        self.process.send_signal(number)

    def wait(self, code=0):
        """Wait for the end; return all output. The wrong exit code is an AssertionError."""
        try:
            found = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"Still running after {DEADLINE:g} s:\n{self.said}") from None
        if found != code:
            raise AssertionError(f"Exit code {found}, not {code}:\n{self.said}")
        return self.said

    def stop(self):
        """Ask a worker to end, and wait until it has, with exit code 0."""
        self.send(signal.SIGTERM)
        return self.wait()

    def kill(self):
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()


@alone
class ProcessTestCase(TransactionTestCase):
    """Starts programs on the database of the test, and leaves none of them behind."""

    # What the programs are to have in their settings.
    nobroker = QUICK
    database = {}
    debug = False

    def setUp(self):
        self.scene = Path(tempfile.mkdtemp(prefix="nobroker-scene-"))
        self.programs = []
        self.addCleanup(self.clear)
        self.queue = Queue("work")

    def clear(self):
        for program in self.programs:
            program.kill()
        shutil.rmtree(self.scene, ignore_errors=True)

    def start(self, name, *args, nobroker=None, database=None):
        """Start Python on the arguments, with the settings of this test."""
        changes = {
            "NOBROKER": self.nobroker if nobroker is None else nobroker,
            "DATABASE": self.database if database is None else database,
            "DEBUG": self.debug,
        }
        env = environment() | {
            "DJANGO_SETTINGS_MODULE": "tests.concurrency.settings",
            "NOBROKER_TEST_CHANGES": json.dumps(changes),
            "NOBROKER_TEST_SCENE": str(self.scene),
        }
        log = self.scene / f"{name}-{len(self.programs)}.log"
        self.programs.append(Program(log, *args, env=env))
        return self.programs[-1]

    def worker(self, handler=None, *options, **settings):
        """Start a worker, as manage.py would, for a handler of this package."""
        path = [] if handler is None else [f"tests.concurrency.handlers:{handler}"]
        return self.start("worker", "-m", "django", "nobroker_work", *path, *options, **settings)

    def producer(self, name, count, *options, **settings):
        """Start a process that enqueues; see `producer`."""
        module = "tests.concurrency.producer"
        return self.start("producer", "-m", module, name, count, *options, **settings)

    def wait_for(self, condition, what):
        """Return the first true answer of the condition; fail at the deadline."""
        until = time.monotonic() + DEADLINE
        while not (found := condition()):
            if time.monotonic() > until:
                self.fail(f"Waited in vain for this: {what}\n{self.everything_said()}")
            time.sleep(0.02)
        return found

    def wait_for_mark(self, name, count=1):
        """Wait until handlers have left so many marks of a name."""
        self.wait_for(lambda: len(self.marks(name)) >= count, f"{count} marks {name!r}")

    def wait_for_states(self, **counts):
        """Wait until no job is in any state but these, each with its count."""
        self.wait_for(lambda: self.states() == counts, f"{counts}, from {self.states()}")

    def wait_until_said(self, program, text):
        """Wait until a program has said something."""
        self.wait_for(lambda: text in program.said, f"{text!r} in {program.log.name}")

    def stop_all(self, workers):
        """Stop workers, but none before it has begun to listen to signals."""
        for worker in workers:
            self.wait_until_said(worker, "Ctrl-C stops it")
            worker.send(signal.SIGTERM)
        for worker in workers:
            worker.wait()

    def marks(self, name):
        """Return the lines of a file that handlers write to; see `scene`."""
        path = self.scene / name
        return path.read_text().splitlines() if path.exists() else []

    def mark(self, name):
        """Let handlers that wait for this file go on."""
        (self.scene / name).touch()

    def states(self):
        """Return how many jobs are in each state that has any."""
        states = list(Job.objects.values_list("state", flat=True))
        return {state: states.count(state) for state in set(states)}

    def everything_said(self):
        """Return the output of all programs, and the states of the jobs."""
        parts = [f"--- {p.log.name} ({p.process.poll()})\n{p.said[-3000:]}" for p in self.programs]
        return "\n".join([*parts, f"--- jobs: {self.states()}"])

    def assert_calm(self, *programs):
        """Assert that programs have said nothing but what they say in good health."""
        for program in programs or self.programs:
            for word in ("Traceback", "WARNING", "ERROR", "CRITICAL", "Exception"):
                self.assertNotIn(word, program.said)


def other_sessions():
    """Return the ids of all other connections to the database of the test."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        else:
            cursor.execute(
                "SELECT id FROM information_schema.processlist"
                " WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
        return [number for (number,) in cursor.fetchall()]


def cut_other_sessions():
    """Have the server end all other connections to the database of the test."""
    end = {
        "postgresql": "SELECT pg_terminate_backend(%s)",
        "mysql": "KILL %s",
    }[connection.vendor]
    for number in other_sessions():
        try:
            with connection.cursor() as cursor:
                cursor.execute(end, [number])
        except connection.Database.OperationalError as error:  # it ended by itself
            if error.args[0] != 1094:
                raise


def process_is_there(number):
    """Return whether a process with this id exists."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True
