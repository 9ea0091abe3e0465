"""The demonstration: its figures, its warehouse, its bar, and the whole of it."""

import io
import os
import tempfile
import urllib.error
import urllib.request

from django.core.management.base import OutputWrapper
from django.db import connection
from django.test import SimpleTestCase, TestCase

from django_nobroker import Queue
from testproject.demo import tally
from testproject.demo.progress import Progress
from testproject.demo.warehouse import LARGEST_BODY, Warehouse
from tests.processes import ROOT, alone, finish, spawn
from tests.rows import alter
from tests.work import Quiet


class TallyTests(Quiet, TestCase):
    def test_counts_by_queue(self):
        emails = Queue("emails", max_attempts=1)
        emails.enqueue_many(range(4))
        emails.ack(emails.lease_one())
        emails.nack(emails.lease_one(), error="no")
        emails.lease_one()
        retried = Queue("webhooks").enqueue(1)
        alter(retried, attempts=2)
        self.assertEqual(
            tally.count(),
            {
                "emails": tally.Tally("emails", jobs=4, open=2, done=1, dead=1, retried=0),
                "webhooks": tally.Tally("webhooks", jobs=1, open=1, done=0, dead=0, retried=1),
            },
        )

    def test_nothing(self):
        self.assertEqual(tally.count(), {})

    def test_the_table_adds_up(self):
        before = {
            "a": tally.Tally("a", jobs=10, open=0, done=8, dead=2, retried=3),
            "long name": tally.Tally("long name", jobs=5, open=0, done=5, dead=0, retried=0),
        }
        after = {
            "a": tally.Tally("a", jobs=10, open=0, done=10, dead=0, retried=3),
            "long name": tally.Tally("long name", jobs=5, open=0, done=5, dead=0, retried=0),
        }
        lines = tally.table(before, {"a": 2}, after)
        head = ["queue", "enqueued", "done", "retried", "dead", "requeued", "done"]
        self.assertEqual(lines[0].split(), head)
        self.assertEqual(lines[2].split(), ["a", "10", "8", "3", "2", "2", "10"])
        self.assertEqual(lines[3].split()[2:], ["5", "5", "0", "0", "0", "5"])
        self.assertEqual(lines[-1].split(), ["all", "15", "13", "3", "2", "2", "15"])
        self.assertEqual(len({len(line) for line in lines}), 1)


class WarehouseTests(SimpleTestCase):
    def post(self, warehouse, body):
        """Return the status of the answer."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(
                urllib.request.Request(warehouse.url, data=body), timeout=10
            ) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def test_which_orders_fail(self):
        with Warehouse() as warehouse:
            answers = [
                [self.post(warehouse, b'{"order": %d}' % order) for order in (1, 2, 3, 4)]
                for _ in range(2)
            ]
            self.assertEqual(answers, [[200, 503, 200, 503], [200, 200, 200, 503]])
            warehouse.repair()
            self.assertEqual(self.post(warehouse, b'{"order": 4}'), 200)
            self.assertEqual(warehouse.known, {1, 2, 3, 4})

    def test_what_is_no_order(self):
        with Warehouse() as warehouse:
            for body in (b"", b"[]", b"{", b'{"order": "1"}', b'{"order": true}', b"null", b"\xff"):
                with self.subTest(body=body):
                    self.assertEqual(self.post(warehouse, body), 400)
            self.assertEqual(self.post(warehouse, b" " * (LARGEST_BODY + 1)), 400)
            self.assertEqual((warehouse.known, warehouse.calls.total()), (set(), 0))


class ProgressTests(SimpleTestCase):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def test_plain_lines_where_there_is_no_terminal(self):
        out = io.StringIO()
        with Progress(OutputWrapper(out), "working", 3) as progress:
            for done in (0, 1, 2, 3, 3):
                progress.show(done)
        lines = out.getvalue().splitlines()
        self.assertIn("3 of 3", lines[-1])
        self.assertEqual(sum("3 of 3" in line for line in lines), 1)
        self.assertNotIn("\r", out.getvalue())

    def test_a_bar_on_a_terminal_that_is_gone_at_the_end(self):
        out = self.Terminal()
        with Progress(OutputWrapper(out), "working", 2) as progress:
            progress.show(1, "1 dead")
        self.assertIn("[############............] 1 of 2, 1 dead", out.getvalue())
        self.assertTrue(out.getvalue().endswith("\r\x1b[K"))

    def test_nothing_to_do(self):
        out = self.Terminal()
        with Progress(OutputWrapper(out), "working", 0) as progress:
            progress.show(0)
        self.assertIn("0 of 0", out.getvalue())


@alone
class DemoTests(SimpleTestCase):
    def test_the_whole_way(self):
        if connection.vendor != "sqlite":
            self.skipTest("it makes a database of its own, in a file")
        with tempfile.TemporaryDirectory() as directory:
            env = os.environ | {
                "DJANGO_SETTINGS_MODULE": "testproject.settings",
                "NOBROKER_DEMO_DATABASE": "sqlite",
                "NOBROKER_DEMO_DIR": directory,
                "PYTHONWARNINGS": "error",
            }
            said = finish(spawn(ROOT / "testproject" / "manage.py", "demo", env=env), timeout=120)
        self.assertIn("All as promised", said)
        self.assertNotIn("Traceback", said)
