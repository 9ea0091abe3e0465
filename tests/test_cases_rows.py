"""Rows that other programs write wrong, each in the way that its database lets them."""

from unittest import skipUnless

from django.db import DatabaseError, connection, transaction
from django.test import TestCase

from django_nobroker import Queue, SerializationError
from django_nobroker.models import Job

from . import rows

queue = Queue("odd")
SQLITE = connection.vendor == "sqlite"
TIMES = ("available_at", "created_at", "started_at")
BROKEN_TEXT = "CAST(x'41ff42' AS TEXT)"


class RowsMixin:
    def assertRefused(self, payload="1", **columns):
        with (
            self.subTest(**columns),
            self.assertRaises(DatabaseError, msg=f"{columns} was accepted"),
            transaction.atomic(),
        ):
            rows.insert(payload, **{"queue": "odd", **columns})

    def assertListsOpen(self, number):
        """Every list shows all rows, and the good one among them can be leased."""
        self.assertEqual(queue.stats().total, number)
        self.assertEqual(len(queue.list_jobs()), number)
        self.assertEqual(len(queue.list_jobs("ready")), number)
        self.assertEqual(Job.objects.in_queue("odd").count(), number)
        for job in queue.list_jobs():
            self.assertEqual(queue.get(id=job.id), job)
            self.assertTrue(str(job))
        leased = queue.lease(number)
        self.assertEqual(len(leased), number)
        self.assertEqual(len(queue.list_jobs("leased")), number)
        for job in leased:
            queue.nack(job, error="odd", delay=0)


@skipUnless(SQLITE, "only SQLite keeps whatever it is given")
class SQLiteTests(RowsMixin, TestCase):
    def test_days_and_hours_that_do_not_exist(self):
        for value in (
            "2024-02-30 00:00:00",
            "2023-02-29 00:00:00",
            "2024-04-31 00:00:00",
            "2024-00-10 00:00:00",
            "2024-01-00 00:00:00",
            "2024-01-01 24:00:00",
            "2024-01-01 23:59:60",
            "2024-01-01 00:60:00",
        ):
            for column in TIMES:
                self.assertRefused(**{column: value})

    def test_times_of_another_form(self):
        for value in (
            "garbage",
            "",
            "now",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01 00:00:00Z",
            "2024-01-01 00:00:00+00:00",
            "2024-01-01 00:00",
            "2024-01-01 00:00:00.",
            "2024-01-01 00:00:00.1x",
            " 2024-01-01 00:00:00",
            "12024-01-01 00:00:00",
            "-2024-01-01 00:00:00",
            ["2460000.5"],
            ["1700000000"],
            ["x'323032342d30312d30312030303a30303a3030'"],
            ["'2024-01-01 00:00:00' || char(0) || 'x'"],
        ):
            for column in TIMES:
                self.assertRefused(**{column: value})

    def test_every_fraction_of_a_second_is_accepted(self):
        values = ("", ".0", ".9", ".999", ".9999", ".999999", ".9999999999", ".123456")
        for fraction in values:
            rows.insert("1", queue="odd", available_at=f"2024-02-29 23:59:59{fraction}")
        self.assertListsOpen(len(values))

    def test_queues_that_no_worker_could_name(self):
        for value in (["x'61'"], ["'a' || char(0) || 'b'"], ["'a' || char(0)"], [BROKEN_TEXT]):
            self.assertRefused(queue=value)

    def test_fractions_where_numbers_are_whole(self):
        for column in ("priority", "attempts", "max_attempts", "fence", "lease_losses", "snoozes"):
            self.assertRefused(**{column: ["1.5"]})
            self.assertRefused(**{column: ["'many'"]})
            self.assertRefused(**{column: ["x'31'"]})

    def test_bytes_that_are_no_text_break_no_list(self):
        rows.insert("1", queue="odd")
        for value in ([BROKEN_TEXT], ["x'41ff42'"]):
            for column in ("task", "job_id", "subject", "error_class", "last_error", "result"):
                rows.insert("1", queue="odd", **{column: value})
            rows.insert(value, queue="odd")
        self.assertListsOpen(15)


@skipUnless(connection.vendor == "mysql", "only MySQL has such a mode")
class LaxMySQLTests(RowsMixin, TestCase):
    """Programs may connect without strict mode, where values are bent until they fit."""

    def setUp(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@session.sql_mode")
            [mode] = cursor.fetchone()
            cursor.execute("SET SESSION sql_mode = ''")
        self.addCleanup(self.restore, mode)

    def restore(self, mode):
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s", [mode])

    def test_values_bent_out_of_range(self):
        for columns in (
            {"available_at": "0000-00-00 00:00:00"},
            {"available_at": "2024-00-10 00:00:00"},
            {"available_at": "9999-12-31 23:59:59"},
            {"state": "unknown to all"},
            {"state": ""},
            {"priority": 99_999},
            {"attempts": -1},
            {"max_attempts": "none"},
            {"lease_losses": -99_999},
            {"queue": "a b"},
            {"queue": ["CONCAT('a', CHAR(0), 'b')"]},
            {"queue": ""},
        ):
            self.assertRefused(**columns)

    def test_dates_without_a_day(self):
        for column in TIMES:
            for value in ("2024-02-30 00:00:00", "2024-02-00 00:00:00", "nonsense"):
                self.assertRefused(**{column: value})


class AnyTests(RowsMixin, TestCase):
    def test_what_no_row_may_be(self):
        for columns in (
            {"queue": "a\n"},
            {"queue": "a/b"},
            {"queue": "ä"},
            {"queue": None},
            {"payload": None},
            {"state": None},
            {"state": "READY"},
            {"state": "ready "},
            {"available_at": None},
            {"fence": -1},
            {"fence": 2**62},
            {"progress": 1.01},
            {"state": "leased"},
            {"state": "done"},
            {"lease_expires_at": "2030-01-01 00:00:00"},
            {"finished_at": "2020-01-01 00:00:00"},
        ):
            self.assertRefused(**columns)
        self.assertEqual(Job.objects.count(), 0)

    def test_payloads_that_are_not_json_break_no_list(self):
        broken = ("", "{", "NaN", "[" * 90_000, "'x'", "1 2", "\ufeff1", "9" * 5_000)
        for text in ("1", *broken):
            rows.insert(text, queue="odd")
        self.assertListsOpen(1 + len(broken))
        good, *others = queue.list_jobs()
        self.assertEqual(good.payload, 1)
        for job in others:
            with self.assertRaisesMessage(SerializationError, f"payload of {job} is not JSON"):
                job.payload  # noqa: B018
