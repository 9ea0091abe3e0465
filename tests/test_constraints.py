"""What no row may be: refused by the database, whoever writes it."""

from unittest import skipUnless

from django.db import DatabaseError, connection, transaction
from django.test import TestCase

from django_nobroker import Queue
from django_nobroker.models import Job, State

from .rows import alter, insert

NOW = {
    "postgresql": ["STATEMENT_TIMESTAMP()"],
    "mysql": ["UTC_TIMESTAMP(6)"],
    "sqlite": ["STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"],
}[connection.vendor]


class RefusalTests(TestCase):
    def assertRefused(self, **columns):
        with (
            self.subTest(**{name: str(value)[:40] for name, value in columns.items()}),
            self.assertRaises(DatabaseError),
            transaction.atomic(),
        ):
            insert(**columns)

    def tearDown(self):
        self.assertEqual(Job.objects.count(), 0)

    def test_states(self):
        for state in ("", "Ready", "READY", "ready ", "running", "x" * 11, None, 5):
            self.assertRefused(state=state)

    def test_queues(self):
        for queue in ("", " ", "a b", "a,b", "é", "*", "a/b", "a\n", "x" * 129, "x" * 300, None):
            self.assertRefused(queue=queue)

    def test_numbers(self):
        for column, values in {
            "priority": (-101, 101, 40_000, None),
            "attempts": (-1, 32_768, 2**40, None),
            "max_attempts": (0, -1, 32_768, None),
            "fence": (-1, 2**62, None),
            "lease_losses": (-1, 32_768, None),
            "snoozes": (-1, 2**31, None),
            "progress": (-0.1, 1.1, 1e300),
        }.items():
            for value in values:
                self.assertRefused(**{column: value})

    def test_nulls(self):
        for column in ("task", "backend", "leased_by", "error_class", "progress_note", "payload"):
            self.assertRefused(**{column: None})

    def test_a_lease_without_a_deadline_and_a_deadline_without_a_lease(self):
        self.assertRefused(state="leased")
        self.assertRefused(state="ready", lease_expires_at=NOW)
        self.assertRefused(state="done", finished_at=NOW, lease_expires_at=NOW)

    def test_an_end_without_a_time_and_a_time_without_an_end(self):
        for state in ("done", "dead", "cancelled"):
            self.assertRefused(state=state)
        self.assertRefused(state="ready", finished_at=NOW)
        self.assertRefused(state="leased", lease_expires_at=NOW, finished_at=NOW)

    def test_times(self):
        poison = [
            "1969-12-31 23:59:59",
            "10000-01-01 00:00:00",
            "garbage",
            "",
            "0000-00-00 00:00:00",
        ]
        if connection.vendor == "postgresql":
            poison += ["infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-01-01 00:00:00"]
        if connection.vendor == "sqlite":
            poison += [
                "now", "2030-01-01", "2030-01-01T00:00:00", "2030-01-01 00:00:00Z", 5, 2_460_000.5,
                "2030-01-01 00:00:00+05:30", "2030-13-01 00:00:00", "2030-01-01 00:00:00.x",
                "2030-01-01 00:00", " 2030-01-01 00:00:00", "2030-01-01 00:00:00.", b"2030",
            ]  # fmt: skip
        for value in poison:
            self.assertRefused(available_at=value)
            self.assertRefused(created_at=value)
            self.assertRefused(started_at=value)
            self.assertRefused(leased_at=value)
            self.assertRefused(state="leased", lease_expires_at=value)
            self.assertRefused(state="done", finished_at=value)

    def test_a_key_that_is_taken(self):
        Queue().enqueue({}, job_id="key")
        self.assertRefused(job_id="key")
        insert(job_id="Key")
        insert(queue="other", job_id="key")
        Job.objects.all().delete()


class AcceptanceTests(TestCase):
    def test_the_bounds_themselves(self):
        for columns in (
            {"priority": -100}, {"priority": 100}, {"attempts": 32_767}, {"max_attempts": 1},
            {"fence": 2**62 - 1}, {"snoozes": 2_000_000_000}, {"progress": 0}, {"progress": 1},
            {"available_at": "1970-01-01 00:00:00"}, {"available_at": "9999-12-30 23:59:59.999"},
            {"queue": "x" * 128}, {"job_id": "x" * 190}, {"job_id": None},
        ):  # fmt: skip
            with self.subTest(**columns):
                insert(**columns)
        self.assertEqual(Queue().stats().total, 12)
        self.assertEqual(len(Queue().list_jobs()), 12)

    def test_every_state_can_be_written(self):
        insert(state="ready")
        insert(state="leased", lease_expires_at=NOW)
        for state in ("done", "dead", "cancelled"):
            insert(state=state, finished_at=NOW)
        found = set(Job.objects.values_list("state", flat=True))
        self.assertEqual(found, set(State.values))

    def test_a_row_cannot_be_made_bad_later(self):
        job = Queue().enqueue({})
        for columns in ({"priority": 101}, {"state": "odd"}, {"queue": "a b"}):
            with self.subTest(**columns), self.assertRaises(DatabaseError), transaction.atomic():
                alter(job, **columns)

    @skipUnless(connection.vendor == "sqlite", "other databases know their types")
    def test_text_in_a_column_of_numbers(self):
        for column in ("priority", "attempts", "max_attempts", "fence", "lease_losses", "snoozes"):
            with (
                self.subTest(column=column),
                self.assertRaises(DatabaseError),
                transaction.atomic(),
            ):
                insert(**{column: "many"})
