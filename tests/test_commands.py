"""The commands: what they take, what they say, and how they end."""

import asyncio
import atexit
import io
import json
import os
import signal
import time

from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import Queue, transitions
from django_nobroker.models import Format, WorkerProcess
from tests.processes import alone, environment, finish, spawn
from tests.rows import HOUR
from tests.work import Quiet, eventually, fresh, states

NOWHERE = {
    "sqlite": "/nonexistent/nobroker.sqlite3",
    "postgresql": "nobroker_no_such_database",
    "mysql": "nobroker_no_such_database",
}
# Databases that are there and have no tables of ours: the names in the settings themselves.
BARE = {"sqlite": ":memory:", "postgresql": "postgres", "mysql": "information_schema"}


def nothing(job):
    pass


def leave_a_mark(job):
    """Leave a group behind, so that another process can see that the job has run."""
    Group.objects.create(name=f"ran {job.payload}")


def say_goodbye(job):
    """Leave something to be done when the process ends."""
    atexit.register(print, "goodbye")


async def outstay(job):
    """Run on in a thread that Python waits for at the end of the process."""
    await Group.objects.acreate(name="outstaying")
    await asyncio.shield(asyncio.to_thread(time.sleep, 600))


def nobroker_work(*args, **options):
    """Run the command here; return what it said."""
    out = io.StringIO()
    call_command("nobroker_work", *args, stdout=out, **{"burst": True, **options})
    return out.getvalue()


class WorkTests(Quiet, TestCase):
    """Inside the test's own transaction."""

    def refused(self, *args, **options):
        with self.assertRaises(CommandError) as caught:
            nobroker_work(*args, **options)
        return caught.exception

    def test_works_and_says_what_it_did(self):
        jobs = Queue().enqueue_many(range(3))
        said = nobroker_work("tests.test_commands:nothing")
        self.assertEqual(states(*jobs), ["done"] * 3)
        self.assertIn("serves all queues", said)
        self.assertIn("leased 3, succeeded 3, failed 0, dead 0, lost leases 0", said)

    def test_a_path_with_a_dot_for_a_colon(self):
        job = Queue().enqueue(1)
        nobroker_work("tests.test_commands.nothing")
        self.assertEqual(states(job), ["done"])

    @override_settings(NOBROKER={"QUEUES": {"a": {"HANDLER": "tests.test_commands.nothing"}}})
    def test_without_a_handler_of_its_own(self):
        mine, other = Queue("a").enqueue(1), Queue("b").enqueue(1)
        nobroker_work()
        self.assertEqual(states(mine, other), ["done", "ready"])

    def test_one_queue_several_and_all_but_some(self):
        for options, served, words in (
            ({"queue": "a"}, "a", "serves a,"),
            ({"queue": "b, a"}, "ab", "serves b, a,"),
            ({"queue": "*"}, "abc", "serves all queues,"),
            ({"exclude": "a,c"}, "b", "serves all queues without a, c,"),
            ({"queue": "a,b", "exclude": "b"}, "a", "serves a, b without b,"),
        ):
            with self.subTest(**options):
                jobs = {name: Queue(name).enqueue(1) for name in "abc"}
                said = nobroker_work("tests.test_commands:nothing", **options)
                done = "".join(name for name in "abc" if fresh(jobs[name]).state == "done")
                self.assertEqual(done, served)
                self.assertIn(words, said)
                transitions.delete(Queue("a").jobs | Queue("b").jobs | Queue("c").jobs)

    def test_says_nothing_when_it_is_to_say_nothing(self):
        self.assertEqual(nobroker_work("tests.test_commands:nothing", verbosity=0), "")

    def test_limits(self):
        Queue().enqueue_many(range(5))
        said = nobroker_work("tests.test_commands:nothing", burst=False, max_jobs=2)
        self.assertIn("leased 2,", said)
        nobroker_work("tests.test_commands:nothing", burst=False, max_time=0)
        nobroker_work("tests.test_commands:nothing", burst=False, idle_timeout=0)
        self.assertEqual(Queue().stats().ready, 0)

    def test_bad_usage(self):
        for options in (
            {"queue": ""},
            {"queue": " , "},
            {"queue": "a b"},
            {"exclude": "é"},
            {"concurrency": 0},
            {"poll_interval": -1.0},
            {"poll_interval": float("nan")},
            {"max_jobs": 0},
            {"max_time": -1.0},
            {"database": "nosuch"},
        ):
            with self.subTest(**options):
                self.assertEqual(
                    self.refused("tests.test_commands:nothing", **options).returncode, 2
                )

    def test_a_handler_that_leads_nowhere(self):
        for path in ("nowhere:at_all", "tests.test_commands:nosuch", "nothing", ":", "a:", ""):
            with self.subTest(path=path):
                self.assertEqual(self.refused(path).returncode, 2)

    @override_settings(NOBROKER={"VISIBILITY_TIMEOUT": "soon"})
    def test_bad_settings(self):
        error = self.refused("tests.test_commands:nothing")
        self.assertEqual(error.returncode, 2)
        self.assertIn("VISIBILITY_TIMEOUT", str(error))

    def test_tables_of_a_format_that_it_does_not_know(self):
        Format.objects.update(version=99)
        error = self.refused("tests.test_commands:nothing")
        self.assertEqual(error.returncode, 5)
        self.assertIn("99", str(error))

    def test_a_queue_that_nobody_knows_is_warned_of(self):
        Queue("known").enqueue(1)
        with self.assertLogs("django_nobroker", "WARNING") as log:
            nobroker_work("tests.test_commands:nothing", queue="known,unknwon")
        self.assertIn("unknwon", "\n".join(log.output))
        self.assertNotIn("'known'", "\n".join(log.output))


@alone
class ProcessTests(TransactionTestCase):
    """As a program of its own."""

    def start(self, *args, **variables):
        env = environment() | {"PYTHONWARNINGS": "error", **variables}
        return spawn("-m", "django", "nobroker_work", *args, env=env)

    def test_a_finished_burst_is_0(self):
        Queue().enqueue(1)
        said = finish(self.start("tests.test_commands:leave_a_mark", "--burst"))
        self.assertIn("succeeded 1", said)
        self.assertTrue(Group.objects.filter(name="ran 1").exists())

    def test_a_clean_end_runs_what_waits_for_the_end_of_the_process(self):
        Queue().enqueue(1)
        said = finish(self.start("tests.test_commands:say_goodbye", "--burst"))
        self.assertEqual(said.strip().splitlines()[-1], "goodbye")

    def test_a_handler_that_was_given_up_does_not_hold_up_the_end(self):
        Queue().enqueue(1)
        process = self.start("tests.test_commands:outstay", "--shutdown-timeout", "0")
        try:
            eventually(Group.objects.filter(name="outstaying").exists)
        finally:
            os.kill(process.pid, signal.SIGTERM)
        said = finish(process, timeout=30)
        self.assertNotIn("Traceback", said)
        self.assertEqual(Queue().stats().ready, 1)

    def test_a_signal_is_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                process = self.start("tests.test_commands:nothing")
                try:
                    eventually(WorkerProcess.objects.filter(pid=process.pid).exists)
                finally:
                    os.kill(process.pid, number)
                said = finish(process)
                self.assertNotIn("Traceback", said)

    def one_line(self, said):
        self.assertNotIn("Traceback", said)
        self.assertEqual(len(said.strip().splitlines()), 1, said)

    def test_bad_usage_is_2(self):
        self.one_line(finish(self.start("tests.test_commands:nosuch"), code=2))
        self.one_line(finish(self.start("tests.test_commands:nothing", "-q", "a b"), code=2))
        said = finish(self.start("--nosuch"), code=2)
        self.assertNotIn("Traceback", said)

    def test_no_database_is_3(self):
        process = self.start(
            "tests.test_commands:nothing", NOBROKER_TEST_DBNAME=NOWHERE[connection.vendor]
        )
        self.assertNotIn("Traceback", finish(process, code=3))

    def test_not_migrated_is_4(self):
        process = self.start(
            "tests.test_commands:nothing", NOBROKER_TEST_DBNAME=BARE[connection.vendor]
        )
        said = finish(process, code=4)
        self.one_line(said)
        self.assertIn("migrate", said)

    def test_an_unknown_format_is_5(self):
        Format.objects.update_or_create(key="format", defaults={"version": 99})
        try:
            self.one_line(finish(self.start("tests.test_commands:nothing"), code=5))
        finally:
            Format.objects.all().delete()


class StatsTests(TestCase):
    def said(self, *args):
        out = io.StringIO()
        call_command("nobroker_stats", *args, stdout=out)
        return out.getvalue()

    def reports(self):
        return {report["queue"]: report for report in json.loads(self.said("--json"))}

    def test_nothing(self):
        self.assertIn("There are no jobs.", self.said())
        self.assertEqual(self.reports(), {})

    def test_counts(self):
        queue = Queue("mail")
        queue.enqueue_many(range(3))
        queue.enqueue("later", delay=HOUR)
        held, cancelled = queue.lease(2)
        queue.ack(held)
        queue.cancel(id=cancelled.id)
        report = self.reports()["mail"]
        self.assertEqual(
            [report[name] for name in ("ready", "delayed", "leased", "done", "dead", "cancelled")],
            [1, 1, 0, 1, 0, 1],
        )
        self.assertEqual(report["total"], 4)
        self.assertGreaterEqual(report["waiting_seconds"], 0)
        line = next(line for line in self.said().splitlines() if line.startswith("mail"))
        self.assertEqual(line.split()[1:8], ["1", "1", "0", "1", "0", "1", "4"])

    def test_why_a_queue_waits(self):
        Queue("mail").enqueue(1)
        transitions.pause("default", "mail", by="ada")
        self.assertEqual(
            self.reports()["mail"]["notes"],
            ["paused", "no worker serves it", "no HANDLER in settings"],
        )
        WorkerProcess.objects.create(identity="w", queues="a, mail")
        transitions.resume("default", "mail")
        handlers = {"mail": {"HANDLER": "tests.test_commands.nothing"}}
        with override_settings(NOBROKER={"QUEUES": handlers}):
            self.assertEqual(self.reports()["mail"]["notes"], [])

    def test_a_queue_with_nothing_waiting_has_no_notes(self):
        queue = Queue("mail")
        queue.enqueue(1)
        queue.ack(queue.lease_one())
        self.assertEqual(self.reports()["mail"]["notes"], [])
