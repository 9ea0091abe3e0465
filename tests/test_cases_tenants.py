"""Tenants in schemas of their own, with one table of jobs for all."""

import contextlib
from unittest import skipUnless

from django.db import connection, transaction
from django.test import TransactionTestCase

from django_nobroker import Queue
from django_nobroker.models import Job
from tests.work import Quiet, states, work

queue = Queue()
TENANTS = ("nobroker_t1", "nobroker_t2")
NONE = ["none", ""]


def execute(statement, params=None):
    """Run a statement; return the rows that it answers with."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchall() if cursor.description else []


def write(job):
    """Write into the schema that the payload names, and crash there if it says so."""
    how, tenant = job.payload
    local = how.startswith("local")
    with transaction.atomic() if local else contextlib.nullcontext():
        execute(f"SET {'LOCAL' if local else 'SESSION'} search_path TO {tenant}, public")
        execute("INSERT INTO note VALUES (%s)", [how])
        # The table of jobs is found from inside of a tenant.
        queue.progress(job, 0.5)
        if how.endswith("crash"):
            raise ValueError(how)


@skipUnless(connection.vendor == "postgresql", "schemas are PostgreSQL's own")
class TenantTests(Quiet, TransactionTestCase):
    def setUp(self):
        super().setUp()
        for tenant in TENANTS:
            execute(f"CREATE SCHEMA {tenant}")
            self.addCleanup(execute, f"DROP SCHEMA {tenant} CASCADE")
            execute(f"CREATE TABLE {tenant}.note (word text)")

    def test_the_search_path_of_one_job_is_not_that_of_the_next(self):
        paths = []

        def handler(job):
            paths.extend(execute("SHOW search_path"))
            if job.payload != NONE:
                write(job)

        for how in ("session", "session crash", "local", "local crash"):
            for tenant in TENANTS:
                queue.enqueue_many([[how, tenant], NONE])
        Job.objects.update(max_attempts=1)
        stats = work(handler)
        self.assertEqual((stats.succeeded, stats.dead), (12, 4))
        self.assertEqual(paths, execute("SHOW search_path") * 16)
        for tenant in TENANTS:
            # Without a transaction, what was written before the crash stays.
            words = execute(f"SELECT word FROM {tenant}.note ORDER BY word")
            self.assertEqual(words, [("local",), ("session",), ("session crash",)])

    def test_an_enqueue_from_inside_of_a_tenant(self):
        with transaction.atomic():
            execute(f"SET LOCAL search_path TO {TENANTS[0]}, public")
            job = queue.enqueue(NONE, job_id="key")
            self.assertFalse(queue.enqueue(NONE, job_id="key").created)
            self.assertFalse(execute(f"SELECT 1 FROM {TENANTS[0]}.note"))
        self.assertEqual(states(job), ["ready"])
