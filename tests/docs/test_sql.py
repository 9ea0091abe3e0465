"""The SQL of the pages, run step by step on the database under test, beside the package's own."""

import re

from django.db import connection, transaction
from django.test import TransactionTestCase

from django_nobroker import Queue, Worker
from django_nobroker.models import Attempt, Format, Job

from .pages import page, pages

VENDORS = {"postgresql", "mysql", "sqlite"}
PARAMETER = re.compile(r"(?<![\w:]):([a-z_]+)\b")


def blocks(vendor):
    """Return {step: SQL} for one database; pages have no two steps of the same name."""
    found = {}
    for one in pages():
        for block in one.of("sql"):
            where, step = block.marks
            if where in ("all", vendor):
                found[step] = block.text
    return found


def run(sql, values):
    """Run the statements with the parameters; return them with what the rows told, and the count.

    The first row of a result gives later statements their parameters, as a worker would.
    """
    values, changed = dict(values), []
    for statement in filter(str.strip, sql.split(";")):
        names = PARAMETER.findall(statement)
        text = PARAMETER.sub("%s", statement.replace("%", "%%"))
        with connection.cursor() as cursor:
            cursor.execute(text if names else statement, [values[n] for n in names] or None)
            if cursor.description:
                rows = cursor.fetchall()
                columns = [column[0] for column in cursor.description]
                values["rows"] = rows
                values |= dict(zip(columns, rows[0], strict=True)) if rows else {}
            elif statement.split()[0] in ("UPDATE", "INSERT"):
                changed.append(cursor.rowcount)
    return values, changed


class SQLTests(TransactionTestCase):
    def setUp(self):
        self.steps = blocks(connection.vendor)
        self.values = {
            "queue": "emails",
            "priority": 0,
            "lease_losses": 0,
            "id": None,  # until a claim tells
            "worker": "another program",
            "seconds": 30.0,
            "delay": 5.0,
            "error_class": "Timeout",
            "message": "Timeout: no answer",
            "traceback": "line 1",
        }

    def step(self, name):
        self.values, changed = run(self.steps[name], self.values)
        return changed

    def claimed(self):
        self.step("enqueue")
        self.step("claim")
        return self.job()

    def job(self):
        return Job.objects.get(id=self.values["id"])

    def test_an_insert_is_a_job_that_is_due(self):
        self.step("enqueue")
        stats = Worker("emails", lambda job: self.assertEqual(job.payload, {"to": 1}), max_jobs=1)
        self.assertEqual(stats.run().succeeded, 1)

    def test_a_time_of_ones_own(self):
        self.step("later")
        job = Job.objects.get()
        self.assertAlmostEqual((job.available_at - job.created_at).total_seconds(), 3600, delta=1)

    def test_a_key_is_enqueued_once(self):
        self.step("keyed")
        self.step("keyed")
        self.assertEqual(Job.objects.get().job_id, "welcome-3")
        self.assertFalse(Queue("emails").enqueue("x", job_id="welcome-3").created)

    def test_version(self):
        Format.objects.update_or_create(key="format", defaults={"version": 1})
        self.step("version")
        self.assertEqual(self.values["version"], 1)

    def test_look_shows_the_lanes_in_order(self):
        queue = Queue("emails")
        for priority in (0, 5, -5):
            queue.enqueue("x", priority=priority)
        queue.enqueue("later", priority=100, delay=60)
        Job.objects.filter(priority=5).update(lease_losses=1)
        self.step("look")
        lanes = [row[:2] for row in self.values["rows"]]
        self.assertEqual(lanes, [(5, 1), (0, 0), (-5, 0)])

    def test_look_passes_over_a_paused_queue(self):
        from django_nobroker import transitions

        Queue("emails").enqueue("x")
        transitions.pause("default", "emails")
        self.step("look")
        self.assertEqual(len(self.values["rows"]), 0)

    def test_claim_leases_as_the_package_does(self):
        theirs = self.claimed()
        [ours] = self.lease_ours()
        for name in ("state", "attempts", "fence", "lease_losses", "snoozes", "progress_note"):
            self.assertEqual(getattr(theirs, name), getattr(ours, name), name)
        held = (theirs.lease_expires_at - theirs.leased_at).total_seconds()
        self.assertAlmostEqual(held, 30, delta=1)
        self.assertEqual(self.values["fence"], theirs.fence)
        self.assertEqual(self.values["attempts"], theirs.attempts)
        self.assertEqual(theirs.leased_by, "another program")

    def lease_ours(self):
        Queue("ours").enqueue("x")
        jobs = Queue("ours").lease(visibility_timeout=30)
        return [Job.objects.get(id=job.id) for job in jobs]

    def test_claim_skips_what_is_not_due(self):
        Queue("emails").enqueue("later", delay=60)
        self.step("claim")
        self.assertEqual(len(self.values["rows"]), 0)

    def test_renew(self):
        before = self.claimed()
        self.values["seconds"] = 300.0
        self.assertEqual(self.step("renew"), [1])
        self.assertGreater(self.job().lease_expires_at, before.lease_expires_at)

    def test_finish(self):
        self.claimed()
        self.assertEqual(self.step("finish"), [1])
        job = self.job()
        self.assertEqual((job.state, job.fence), ("done", 2))
        self.assertEqual(self.step("finish"), [0])

    def test_retry(self):
        self.claimed()
        self.assertEqual(self.step("retry"), [1, 1])
        job = self.job()
        self.assertEqual((job.state, job.attempts, job.fence), ("ready", 1, 2))
        self.assertEqual((job.error_class, job.last_error), ("Timeout", "Timeout: no answer"))
        attempt = Attempt.objects.get()
        self.assertEqual((attempt.job_id, attempt.number), (job.id, 1))
        self.assertEqual((attempt.fence, attempt.message), (1, "Timeout: no answer"))

    def test_bury_and_requeue(self):
        self.claimed()
        self.assertEqual(self.step("bury"), [1, 1])
        self.assertEqual(Queue("emails").requeue_dead(), 1)
        self.assertEqual(self.job().attempts, 0)

    def test_release_gives_the_attempt_back(self):
        self.claimed()
        self.assertEqual(self.step("release"), [1])
        self.assertEqual((self.job().state, self.job().attempts), ("ready", 0))

    def test_a_lost_lease_changes_nothing(self):
        self.claimed()
        Queue("emails").cancel(id=self.values["id"])
        for name in ("renew", "finish", "release", "lost"):
            self.assertEqual(self.step(name), [0], name)
        self.assertEqual(self.job().state, "cancelled")

    def test_reap(self):
        self.values["seconds"] = -1.0
        self.claimed()
        with transaction.atomic():
            self.step("expired")
            self.assertEqual(self.step("lost"), [1])
        job = self.job()
        self.assertEqual((job.state, job.lease_losses, job.attempts), ("ready", 1, 1))


class CoverageTests(TransactionTestCase):
    def test_every_database_has_every_step(self):
        steps = {vendor: set(blocks(vendor)) for vendor in VENDORS}
        self.assertEqual(steps["postgresql"], steps["mysql"])
        self.assertEqual(steps["postgresql"], steps["sqlite"])

    def test_every_parameter_is_described(self):
        told = set(PARAMETER.findall(page("docs/reference/sql-format.md").prose))
        for vendor in VENDORS:
            used = {name for sql in blocks(vendor).values() for name in PARAMETER.findall(sql)}
            self.assertEqual(used, told)
