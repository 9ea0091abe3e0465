"""Payloads come back from the database as they went in."""

from django.db import connection
from django.test import TestCase
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.django import TestCase as HypothesisTestCase

from django_nobroker import Queue, QueueError, SerializationError
from django_nobroker.models import Job

from .test_payloads import JSON, TEXT, is_paired


class ComesBackEqualTests(HypothesisTestCase):
    """Through the database and the lease, as a handler sees it."""

    def assertStored(self, value):
        job = Queue().enqueue(value)
        many = Queue().enqueue_many([value, [value]])
        stored = {found.id: found.payload for found in Queue().lease(3)}
        self.assertEqual(stored, {job.id: value, many[0].id: value, many[1].id: [value]})
        self.assertEqual(Job.objects.get(pk=job.id).payload, value)

    @given(JSON)
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_any_json(self, value):
        self.assertStored(value)

    @given(TEXT.filter(lambda text: not is_paired(text)))
    @settings(max_examples=60, deadline=None)
    def test_any_text(self, text):
        self.assertStored(text)

    @given(TEXT.filter(lambda text: 1 <= len(text) <= 190))
    @settings(max_examples=60, deadline=None)
    def test_any_key(self, key):
        if "\x00" in key or any("\ud800" <= character <= "\udfff" for character in key):
            with self.assertRaises(QueueError):
                Queue().enqueue({}, job_id=key)
            return
        self.assertTrue(Queue().enqueue({}, job_id=key).created)
        self.assertFalse(Queue().enqueue({}, job_id=key).created)
        self.assertEqual(Queue().get(key).job_id, key)


class LargeTests(TestCase):
    def test_large_payloads_are_whole(self):
        for size in (70_000, 1_000_000, 8 * 1024 * 1024 - 2):
            with self.subTest(size=size):
                job = Queue().enqueue("x" * size)
                self.assertEqual(len(Queue().get(id=job.id).payload), size)

    def test_a_server_that_takes_less_says_so_before_it_is_asked(self):
        if connection.vendor != "mysql":
            self.skipTest("only MySQL and MariaDB have such a limit")
        connection._nobroker_packet = 2_000_000
        self.addCleanup(delattr, connection, "_nobroker_packet")
        with self.assertRaisesMessage(SerializationError, "max_allowed_packet"):
            Queue().enqueue("x" * 3_000_000)
        # Not the longest of them, but the largest as part of a statement.
        payloads = ["x" * 1_500_000, '"' * 600_000]
        with self.assertRaisesMessage(SerializationError, "max_allowed_packet"):
            Queue().enqueue_many(payloads)
        self.assertTrue(Queue().enqueue("x" * 1_900_000).id)
