"""The handlers of the how-to guides do what the guides say of them."""

import sys
import time
import unittest

from django.contrib.auth.models import User
from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings, skipUnlessDBFeature

from django_nobroker import Job, LeaseLost, Queue, Worker
from django_nobroker.tasks import SUPPORTED

from .pages import page
from .play import Play

TASKS = {"default": {"BACKEND": "django_nobroker.backend.NobrokerBackend"}}


class HandlerTests(TransactionTestCase):
    def setUp(self):
        self.ann = User.objects.create_user("ann", "ann@example.org")
        self.enterContext(Play(page("docs/how-to/write-a-handler.md"), self)).run()
        self.queue = Queue("guide", max_attempts=1)

    def work(self, path, payload, **options):
        self.queue.enqueue(payload)
        return Worker(self.queue, path, max_jobs=1, **options).run()

    def test_reject(self):
        self.assertEqual(self.work("shop.jobs.send_invoice", {"invoice": -1}).dead, 1)
        self.assertEqual(self.work("shop.jobs.send_invoice", {"invoice": 1}).succeeded, 1)

    def test_an_ack_of_ones_own_is_a_success(self):
        stats = self.work("shop.ledger.book", {})
        self.assertEqual((stats.succeeded, stats.lost_leases), (1, 0))
        self.assertEqual(self.queue.stats().done, 1)

    def test_an_ack_without_the_lease_rolls_back(self):
        self.queue.enqueue({})
        job = self.queue.lease_one()
        self.queue.cancel(id=job.id)
        with self.assertRaises(LeaseLost):
            sys.modules["shop.ledger"].book(job)
        self.assertEqual(self.queue.stats().cancelled, 1)

    def test_a_connection_closed_before_a_long_part_is_opened_again(self):
        self.assertEqual(self.work("shop.films.render_film", {"owner": self.ann.pk}).succeeded, 1)

    def test_progress(self):
        self.assertEqual(self.work("shop.imports.import_rows", {"rows": [1, 2]}).succeeded, 1)
        [job] = self.queue.list_jobs("done")
        self.assertEqual((job.progress, job.progress_note), (1.0, "row 2"))

    def test_async(self):
        self.assertEqual(self.work("shop.calls.call", {"user": self.ann.pk}).succeeded, 1)

    @skipUnlessDBFeature("test_db_allows_multiple_connections")
    def test_threads_of_ones_own_leave_no_connection(self):
        before = self.open_connections()
        stats = self.work("shop.pools.greet_all", {"users": [self.ann.pk] * 20})
        self.assertEqual(stats.succeeded, 1)
        # The server takes a moment to see that a connection was closed.
        deadline = time.monotonic() + 5
        while self.open_connections() > before and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertLessEqual(self.open_connections(), before)

    def open_connections(self):
        table = {
            "postgresql": "pg_stat_activity WHERE datname = CURRENT_DATABASE()",
            "mysql": "information_schema.processlist WHERE db = DATABASE()",
        }[connection.vendor]
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM {table}")
            return cursor.fetchone()[0]


class TestingGuideTests(TestCase):
    def setUp(self):
        self.enterContext(Play(page("docs/how-to/test.md"), self)).run()
        Job.objects.all().delete()

    def test_the_guides_tests_pass(self):
        module = sys.modules["shop.tests"]
        for name in self.names(module.OrderTests, 2):
            # Not as a suite, whose class would open and close the database around itself.
            getattr(module.OrderTests(name), name)()
            Queue("emails").purge()
            module.sent.clear()

    @unittest.skipUnless(SUPPORTED, "django.tasks came with Django 6.0")
    def test_those_of_its_tasks_pass(self):
        module = sys.modules["shop.task_tests"]
        # The page ends with another backend.
        with override_settings(TASKS=TASKS):
            for name in self.names(module.InvoiceTests, 1):
                getattr(module.InvoiceTests(name), name)()

    def names(self, case, count):
        names = unittest.defaultTestLoader.getTestCaseNames(case)
        self.assertEqual(len(names), count)
        return names
