"""What the dialects promise beneath the transitions: batches, packets, conflicts, and the alias."""

import json
from unittest import skipUnless

from django.db import OperationalError, connection
from django.test import SimpleTestCase, TestCase, override_settings
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as HypothesisTestCase

from django_nobroker import Queue, sql
from django_nobroker.failures import Failure
from django_nobroker.models import Job
from django_nobroker.sql import mysql
from django_nobroker.sql.base import Dialect
from django_nobroker.transitions import settle

from .rows import alter

IS_PLAIN = type(sql.dialect(connection)) is Dialect


class PacketTests(SimpleTestCase):
    @given(st.lists(st.integers(0, 400_000), max_size=30), st.integers(1_000, 500_000))
    def test_nothing_is_lost_and_each_fits(self, sizes, limit):
        texts = ["x" * size for size in sizes]
        batches = list(mysql.packets(texts, limit))
        self.assertEqual([text for batch in batches for text in batch], texts)
        for batch in batches:
            self.assertTrue(batch)
            self.assertTrue(len(batch) == 1 or sum(map(len, batch)) <= limit)

    def test_at_most_so_many_rows(self):
        self.assertEqual(
            [len(batch) for batch in mysql.packets(["{}"] * 2500, 10**9)], [1000, 1000, 500]
        )

    @given(st.text(st.sampled_from("ab\"\\'\x00é")))
    def test_what_is_escaped_takes_more(self, text):
        payload = json.dumps(text)
        escaped = payload.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
        self.assertEqual(mysql.escaped_size(payload), len(escaped))


class AliasTests(TestCase):
    def test_the_routers_the_settings_and_ones_own(self):
        self.assertEqual(Queue().alias, "default")
        self.assertEqual(Queue(using="other").alias, "other")
        with override_settings(DATABASE_ROUTERS=["tests.test_sql.WritesElsewhere"]):
            self.assertEqual(Queue().alias, "jobs")
            with override_settings(NOBROKER={"DATABASE": "default"}):
                self.assertEqual(Queue().alias, "default")

    @override_settings(DATABASE_ROUTERS=["tests.test_sql.ReadsElsewhere"])
    def test_every_read_goes_where_the_writes_go(self):
        queue = Queue()
        queue.enqueue({}, job_id="key", max_attempts=1)
        self.assertFalse(queue.enqueue({}, job_id="key").created)
        queue.nack(queue.lease_one())
        self.assertEqual((queue.get("key").state, len(queue.dlq())), ("dead", 1))
        self.assertEqual((queue.stats().dead, len(queue.list_jobs())), (1, 1))
        self.assertEqual(queue.requeue_dead(), 1)
        self.assertTrue(queue.cancel("key"))
        self.assertEqual(queue.purge(), 1)


class WritesElsewhere:
    def db_for_write(self, model, **hints):
        return "jobs"


class ReadsElsewhere:
    def db_for_read(self, model, **hints):
        raise AssertionError(f"{model.__name__} was read from a replica")


class DialectTests(TestCase):
    def test_the_plain_path_can_be_forced(self):
        self.addCleanup(sql.force_base, IS_PLAIN)
        sql.force_base(True)
        self.assertIs(type(sql.dialect(connection)), Dialect)
        sql.force_base(False)
        self.assertEqual(type(sql.dialect(connection)).__module__.split(".")[-1], connection.vendor)

    @skipUnless(not IS_PLAIN, "the plain path repeats nothing by itself")
    def test_conflicts_are_told_from_errors(self):
        conflict = OperationalError({"mysql": 1213}.get(connection.vendor, "database is locked"))
        if connection.vendor == "postgresql":
            conflict.__cause__ = type("Cause", (Exception,), {"sqlstate": "40001"})()
        dialect = sql.dialect(connection)
        self.assertTrue(dialect.is_conflict(conflict))
        for error in (
            OperationalError(),
            OperationalError("no such table"),
            OperationalError(2006),
        ):
            self.assertFalse(dialect.is_conflict(error))

    def test_a_leased_job_is_an_ordinary_instance(self):
        Queue().enqueue({"a": 1}, job_id="key", subject="s", priority=3)
        held = Queue().lease_one()
        stored = Job.objects.get(pk=held.pk)
        self.assertEqual(held, stored)
        self.assertEqual(hash(held), hash(stored))
        self.assertEqual(held._state.db, "default")
        self.assertFalse(held._state.adding)
        self.assertEqual((held.created, held.lease_lost), (True, False))
        self.assertEqual((held.last_error, held.result, held.progress_note), (None, None, ""))
        self.assertEqual(set(held.get_deferred_fields()) & {"payload", "fence", "attempts"}, set())


class BatchTests(TestCase):
    """Values that differ from row to row reach their own row, whatever is in them."""

    def held(self, count):
        Queue().enqueue_many(range(count))
        return Queue().lease(count)

    def test_each_row_gets_its_own(self):
        jobs = self.held(50)
        verdicts = [
            settle.nacked(job, Failure(f"m.E{job.id}", f"error {job.id}"), job.payload * 60)
            for job in reversed(jobs)
        ]
        self.assertEqual(settle.apply("default", verdicts), {job.id for job in jobs})
        for job in Job.objects.all():
            attempt = job.failed_attempts.get()
            self.assertEqual((job.last_error, attempt.message), (f"error {job.id}",) * 2)
            self.assertEqual((job.error_class, attempt.error_class), (f"m.E{job.id}",) * 2)
            wait = (job.available_at - attempt.ended_at).total_seconds()
            self.assertAlmostEqual(wait, job.payload * 60, delta=5)

    def test_results(self):
        jobs = self.held(3)
        settle.apply("default", [settle.acked(job, f'"{job.id}é"') for job in jobs])
        for job in Job.objects.all():
            self.assertEqual(job.result, f'"{job.id}é"')

    def test_the_largest_numbers(self):
        [job] = self.held(1)
        alter(job, fence=2**62 - 1)
        job.fence = job.held_fence = 2**62 - 1
        self.assertEqual(settle.extend("default", [(job, 0.001)]), {job.id})
        self.assertEqual(settle.apply("default", [settle.acked(job)]), {job.id})
        self.assertEqual(Queue().get(id=job.id).fence, 0)

    def test_nothing_at_all(self):
        with self.assertNumQueries(0):
            self.assertEqual(settle.extend("default", []), set())

    def test_a_thousand(self):
        jobs = self.held(1000)
        self.assertEqual(len(settle.extend("default", [(job, 60) for job in jobs])), 1000)
        done = settle.apply("default", [settle.acked(job) for job in jobs])
        self.assertEqual(len(done), 1000)
        self.assertEqual(Queue().stats().done, 1000)


class TextTests(HypothesisTestCase):
    @given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), max_size=8))
    @limits(max_examples=50, deadline=None)
    def test_texts(self, texts):
        Queue().enqueue_many(texts)
        jobs = Queue().lease(len(texts) or 1)
        settle.apply(
            "default",
            [
                settle.rejected(job, Failure(message=text))
                for job, text in zip(jobs, texts, strict=True)
            ],
        )
        found = dict(Job.objects.values_list("pk", "last_error"))
        self.assertEqual([found[job.id] for job in jobs], texts)
