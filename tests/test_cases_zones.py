"""Jobs of other programs, and times, whatever zone the server, the session and the project are in.

Everything is due, expires and is pruned by the instant, not by the hour that a clock shows.
"""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.test import TestCase, override_settings
from django.utils import timezone

from django_nobroker import BackoffPolicy, Queue, transitions
from django_nobroker.clock import Ahead
from django_nobroker.conf import QueueOptions
from django_nobroker.models import Job

# The zones that another program's session, or the server, may be in.
ZONES = {
    "postgresql": ("SET LOCAL TIME ZONE %s", ("America/New_York", "Asia/Kolkata")),
    "mysql": ("SET time_zone = %s", ("-05:00", "+05:30")),
}
UTC_NOW = {
    "postgresql": ("NOW()", "CURRENT_TIMESTAMP", "CLOCK_TIMESTAMP()"),
    "mysql": ("UTC_TIMESTAMP()", "UTC_TIMESTAMP(6)"),
    "sqlite": ("CURRENT_TIMESTAMP", "DATETIME('now')", "STRFTIME('%Y-%m-%d %H:%M:%f', 'now')"),
}
INSERT = """INSERT INTO nobroker_job (queue, payload) VALUES ('zones', '{"to": 1}')"""
queue = Queue("zones", backoff=BackoffPolicy(base=60, jitter=0))
MINUTE = timedelta(minutes=1)


def execute(statement, params=None):
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


class ZoneMixin:
    """Every test runs in the zones of its class and of each session that a program may have."""

    def sessions(self):
        """Return what sets the zone of a session, for each of the zones."""
        statement, zones = ZONES.get(connection.vendor, (None, ()))
        return [None, *((statement, [zone]) for zone in zones)]

    @contextmanager
    def session(self, zone):
        """Put the connection into a zone, as another program's might be."""
        with self.subTest(zone=zone):
            queue.purge()
            with self.zone(zone):
                yield

    @contextmanager
    def own_session(self, zone):
        """The same for the queue's own session; on PostgreSQL Django sets that one's zone."""
        with self.session(None if connection.vendor == "postgresql" else zone):
            yield

    @contextmanager
    def zone(self, zone):
        if zone is None:
            yield
            return
        query = "SELECT @@session.time_zone" if connection.vendor == "mysql" else "SHOW TimeZone"
        with connection.cursor() as cursor:
            cursor.execute(query)
            before = cursor.fetchone()
            cursor.execute(*zone)
            try:
                yield
            finally:
                cursor.execute(zone[0], before)

    def assertNow(self, instant, off_by=0):
        """Compare with the host's clock, an hour and more from what a wrong zone would say."""
        self.assertEqual(instant.utcoffset(), timedelta(0))
        expected = datetime.now(UTC) + timedelta(seconds=off_by)
        self.assertLess(abs(instant - expected), 20 * MINUTE)

    def test_plain_insert_is_due_at_once(self):
        for zone in self.sessions():
            with self.session(zone):
                execute(INSERT)
            self.assertEqual(queue.stats().ready, 1)
            [job] = queue.lease(5)
            self.assertEqual(job.payload, {"to": 1})
            for instant in (job.available_at, job.created_at, job.leased_at, job.started_at):
                self.assertNow(instant)
            self.assertNow(job.lease_expires_at)

    def test_insert_that_names_its_time_in_utc_is_due_at_once(self):
        for zone in self.sessions():
            with self.session(zone):
                for now in UTC_NOW[connection.vendor]:
                    execute(
                        "INSERT INTO nobroker_job (queue, payload, available_at)"
                        f" VALUES ('zones', '1', {now})"
                    )
            self.assertEqual(len(queue.lease(9)), len(UTC_NOW[connection.vendor]))

    def test_delays(self):
        for zone in self.sessions():
            with self.own_session(zone):
                job = queue.enqueue(0, delay=1800)
                self.assertNow(job.available_at, 1800)
                self.assertNow(queue.get(id=job.id).available_at, 1800)
                self.assertEqual(queue.stats().delayed, 1)
                self.assertEqual(queue.lease(), [])
                [many] = queue.enqueue_many([0], delay=timedelta(hours=-9))
                self.assertNow(queue.get(id=many.id).available_at)
                self.assertEqual([found.id for found in queue.lease(9)], [many.id])

    def test_run_after(self):
        soon = datetime.now(UTC) + 30 * MINUTE
        zones = (UTC, timezone.get_fixed_timezone(-600), timezone.get_fixed_timezone(600))
        for zone in self.sessions():
            with self.own_session(zone):
                for zone in zones:
                    job = queue.enqueue(0, run_after=soon.astimezone(zone))
                    found = queue.get(id=job.id).available_at
                    self.assertLess(abs(found - soon), timedelta(milliseconds=2))
                self.assertEqual(queue.stats().delayed, len(zones))
                self.assertTrue(queue.enqueue(0, run_after=soon - 60 * MINUTE))
                self.assertEqual(len(queue.lease(9)), 1)

    def test_retries(self):
        for zone in self.sessions():
            with self.own_session(zone):
                queue.enqueue(0)
                job = queue.nack(queue.lease_one(), error="not now")
                self.assertNow(job.available_at, 60)
                self.assertEqual((queue.stats().delayed, queue.lease()), (1, []))
                [attempt] = job.failed_attempts.all()
                self.assertNow(attempt.started_at)
                self.assertNow(attempt.ended_at)

    def test_leases_expire_in_their_time(self):
        options = QueueOptions(visibility_timeout=1800)
        for zone in self.sessions():
            with self.own_session(zone):
                queue.enqueue(0)
                job = queue.lease_one(visibility_timeout=1800)
                self.assertEqual(self.reap(options), 0)
                self.assertNow(queue.extend(job, 1800).lease_expires_at, 1800)
                self.assertEqual(self.reap(options), 0)
                Job.objects.filter(pk=job.pk).update(lease_expires_at=Ahead(-1))
                self.assertEqual(self.reap(options), 1)

    def reap(self, options):
        return transitions.reap(queue.alias, lambda name: options, in_touch=1e9)

    def test_pruned_in_their_time(self):
        options = QueueOptions(keep_done=1800, keep_dead=1800)
        for zone in self.sessions():
            with self.own_session(zone):
                done, dead = queue.enqueue(0), queue.enqueue(0, max_attempts=1)
                for job in queue.lease(2):
                    queue.ack(job) if job.id == done.id else queue.nack(job)
                self.assertNow(queue.get(id=dead.id).finished_at)
                self.assertEqual(transitions.prune(queue.alias, options, {}), 0)
                Job.objects.update(finished_at=Ahead(-1801))
                self.assertEqual(transitions.prune(queue.alias, options, {}), 2)


class UTCTests(ZoneMixin, TestCase):
    pass


@override_settings(USE_TZ=True, TIME_ZONE="Asia/Shanghai")
class AwareShanghaiTests(ZoneMixin, TestCase):
    pass


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
class NaiveShanghaiTests(ZoneMixin, TestCase):
    def test_naive_run_after_is_local_time(self):
        local = datetime.now(timezone.get_default_timezone()).replace(tzinfo=None)
        job = queue.enqueue(0, run_after=local + 30 * MINUTE)
        self.assertNow(queue.get(id=job.id).available_at, 1800)
        queue.enqueue(1, run_after=local - 30 * MINUTE)
        self.assertEqual([job.payload for job in queue.lease(9)], [1])

    def test_far_past_and_far_future(self):
        self.assertNow(queue.enqueue(0, run_after=datetime.min).available_at)  # noqa: DTZ901
        with self.assertRaisesMessage(ValueError, "past the year 9999"):
            queue.enqueue(0, run_after=datetime.max)  # noqa: DTZ901


@override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
class NaiveNewYorkTests(ZoneMixin, TestCase):
    def test_the_hour_that_comes_twice(self):
        """Two instants of one local hour stay two."""
        first = datetime(2030, 11, 3, 5, 30, tzinfo=UTC)
        for instant in (first, first + 60 * MINUTE):
            job = queue.enqueue(0, run_after=instant)
            self.assertEqual(queue.get(id=job.id).available_at, instant)
