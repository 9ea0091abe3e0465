"""The commands: what they take, what they say, and how they end."""

import io
import json

from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings

from django_nobroker import Queue, transitions
from django_nobroker.models import Format, WorkerProcess
from tests.rows import HOUR
from tests.work import Quiet, fresh, states


def nothing(job):
    pass


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
