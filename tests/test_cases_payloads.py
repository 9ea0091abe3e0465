"""Payloads through the database itself: what is odd for JSON, for drivers and for statements."""

import os

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as DrawnTestCase

from django_nobroker import Queue, QueueError, SerializationError
from django_nobroker.models import Job

queue = Queue("payloads")

# Half a surrogate pair next to its other half is one character once it has been JSON.
TEXT = st.text(st.characters(codec=None), max_size=50).filter(
    lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") == text
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=30,
)
# The same examples every time: what fails here fails again.
drawn = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def nested(levels, inside=None):
    value = inside
    for _ in range(levels):
        value = [value]
    return value


class DrawnTests(DrawnTestCase):
    def assertComesBack(self, *values):
        # By repr, which tells 1 from True and from 1.0, and one order of keys from another.
        ids = [queue.enqueue(value).id for value in values]
        ids += [job.id for job in queue.enqueue_many(values)]
        for pk, value in zip(ids, values * 2, strict=True):
            self.assertEqual(repr(queue.get(id=pk).payload), repr(value))

    @drawn
    @given(st.lists(JSON, min_size=1, max_size=8))
    def test_any_json_comes_back_equal(self, values):
        self.assertComesBack(*values)

    @drawn
    @given(TEXT, TEXT)
    def test_any_text_comes_back_equal_as_value_and_as_key(self, key, value):
        self.assertComesBack(value, {key: value})

    @drawn
    @given(JSON)
    def test_a_leased_job_has_the_same_payload(self, value):
        queue.purge()
        queue.enqueue(value)
        [job] = queue.lease()
        self.assertEqual(repr(job.payload), repr(value))

    def test_what_means_something_to_drivers_and_statements(self):
        self.assertComesBack(
            "%s %(a)s %% ? $1 :a {0}",
            "'; DROP TABLE nobroker_job; --",
            "\\' \\\\ \\n \\u0000 \\",
            "\x00\x01\x1a\x7f\ufffe\uffff",
            os.fsdecode(b"\xff.txt"),
            {"\x00": {"": None}},
        )


class RefusedTests(TestCase):
    def assertRefused(self, value):
        """Nothing is written, and the caller's transaction goes on as if nothing had been."""
        with transaction.atomic():
            before = queue.enqueue("before")
            with self.assertRaises(SerializationError):
                queue.enqueue(value)
            with self.assertRaises(SerializationError):
                queue.enqueue_many(["fine", value])
            with self.assertRaises(SerializationError):
                queue.enqueue(value, job_id="key")
            after = queue.enqueue("after")
        self.assertEqual([job.id for job in queue.list_jobs()], [before.id, after.id])
        queue.purge()

    def test_value_that_holds_itself(self):
        endless = []
        endless.append({"again": endless})
        self.assertRefused(endless)

    def test_bad_value_deep_inside(self):
        for levels in (100, 400, 499, 3_000):
            for bad in ({1}, float("nan"), (1,), {1: 1}):
                with self.subTest(levels=levels, bad=bad):
                    self.assertRefused(nested(levels, bad))

    def test_too_deep_and_too_large(self):
        self.assertRefused(nested(501))
        self.assertRefused(nested(200_000))
        self.assertRefused("\x00" * (2 * 1024 * 1024))

    def test_iterable_that_fails_half_way(self):
        def orders():
            yield 1
            raise LookupError("no more orders")

        with self.assertRaises(LookupError):
            queue.enqueue_many(orders())
        self.assertEqual(queue.stats().total, 0)


class SizeTests(TransactionTestCase):
    def test_large_ones_come_back_whole_or_are_refused(self):
        # Quotes and backslashes double in the JSON, and again in a statement.
        for size in (70_000, 1_000_000, 4_000_000):
            for character in ("x", '"', "\\", "é"):
                value = character * (size // len(character.encode("unicode_escape")))
                with self.subTest(size=size, character=character):
                    try:
                        job = queue.enqueue(value)
                    except SerializationError as error:
                        self.assertIn("bytes", str(error))
                    else:
                        self.assertTrue(queue.get(id=job.id).payload == value)

    def test_largest_payload(self):
        value = "x" * (8 * 1024 * 1024 - 2)
        job = queue.enqueue(value)
        self.assertTrue(queue.get(id=job.id).payload == value)
        [leased] = queue.lease()
        self.assertTrue(leased.payload == value)

    def test_many_large_ones_are_all_written_or_none(self):
        values = [f"{number}" + '"' * 400_000 for number in range(12)]
        jobs = queue.enqueue_many(values)
        self.assertEqual(Job.objects.count(), 12)
        for job, value in zip(jobs, values, strict=True):
            self.assertTrue(queue.get(id=job.id).payload == value)


class KeyTests(TestCase):
    def test_queues_and_keys_do_not_run_together(self):
        for name, key in (("a", "bc"), ("ab", "c"), ("a", "b:c"), ("a", "b"), ("a", ":bc")):
            self.assertTrue(Queue(name).enqueue(0, job_id=key).created, (name, key))

    def test_keys_are_compared_byte_for_byte(self):
        keys = ("k", "K", "k ", " k", "é", "e\u0301", "e", "ß", "ss", "k\n", "\U0001f600", "ı", "i")
        jobs = {key: queue.enqueue(key, job_id=key) for key in keys}
        self.assertTrue(all(job.created for job in jobs.values()))
        for key, job in jobs.items():
            self.assertEqual(queue.get(key).id, job.id)
            self.assertEqual(queue.enqueue(0, job_id=key).id, job.id)
        self.assertEqual({name.queue for name in Queue("A").list_jobs()}, set())

    def test_queue_names_are_compared_byte_for_byte(self):
        for name in ("Mail", "mail", "mail.", "mail-", "mail_"):
            Queue(name).enqueue(name)
        for name in ("Mail", "mail", "mail.", "mail-", "mail_"):
            self.assertEqual([job.payload for job in Queue(name).lease(9)], [name])

    def test_longest_names_and_keys(self):
        name, key = "q" * 128, "\U0001f600" * 190
        job = Queue(name).enqueue(0, job_id=key, subject=key)
        self.assertEqual(Queue(name).get(key).id, job.id)
        self.assertEqual(Queue(name).get(key).subject, key)
        self.assertFalse(Queue(name).enqueue(0, job_id=key).created)

    def test_refused_before_anything_is_written(self):
        with transaction.atomic():
            for options in (
                {"job_id": "k" * 191},
                {"job_id": "k" * 5_000},
                {"job_id": ""},
                {"job_id": "a\x00b"},
                {"job_id": "\ud800"},
                {"job_id": 5},
                {"job_id": b"k"},
                {"subject": "s" * 191},
                {"subject": ""},
                {"subject": "a\x00b"},
                {"subject": Job()},
                {"subject": 5},
            ):
                with self.subTest(options=options), self.assertRaises(QueueError):
                    queue.enqueue(0, **options)
            for name in (
                "q" * 129,
                "q" * 300,
                "",
                "a b",
                "a\n",
                "ä",
                "a/b",
                "a\x00",
                None,
                5,
                b"a",
            ):
                with self.subTest(name=name), self.assertRaises(QueueError):
                    Queue(name)
            for key in ("k" * 191, "a\x00b", "\ud800", ""):
                with self.subTest(key=key), self.assertRaises(QueueError):
                    queue.get(key)
            self.assertFalse(connection.needs_rollback)
            queue.enqueue(0)
        self.assertEqual(queue.stats().total, 1)
