"""Tables that are made, changed by another release, and made again."""

import contextlib
import io
from unittest import skipUnless

from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import translation

from django_nobroker import Queue, conf, formats, transitions
from django_nobroker.conf import QueueOptions
from django_nobroker.models import FORMAT_VERSION, Job
from tests.rows import HOUR, alter, bring_forward, expire, insert, snapshot
from tests.work import Quiet, states, work

queue = Queue()


def execute(statement, params=None):
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchall() if cursor.description else None


def nothing(job):
    pass


class MigrationTests(TestCase):
    @override_settings(NOBROKER={"MAX_ATTEMPTS": 9, "QUEUES": {"a": {}, "b": {"KEEP_DONE": 0}}})
    def test_none_is_wanted_whatever_the_settings_say(self):
        for language in ("de", "ar", "zh-hans"):
            for use in (True, False):
                with (
                    self.subTest(language=language, use=use),
                    override_settings(LANGUAGE_CODE=language, USE_I18N=use, USE_TZ=use),
                    translation.override(language),
                ):
                    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


class ThereAndBackTests(Quiet, TransactionTestCase):
    def test_to_zero_and_forward(self):
        queue.enqueue_many(range(5))
        try:
            call_command("migrate", "nobroker", "zero", verbosity=0)
        finally:
            call_command("migrate", "nobroker", verbosity=0)
        self.assertEqual(formats.version("default"), FORMAT_VERSION)
        jobs = [queue.enqueue(1), *queue.enqueue_many([2, 3]), queue.enqueue(4, job_id="key")]
        ids = [job.id for job in jobs]
        self.assertEqual(sorted(set(ids)), ids)
        insert("5")
        self.assertEqual(work(nothing).succeeded, 5)
        queue.purge()
        self.assertGreater(queue.enqueue(1).id, ids[-1])


class NewerTablesTests(Quiet, TransactionTestCase):
    """This release on tables that a newer one has migrated."""

    @contextlib.contextmanager
    def any_state(self):
        """Let a job be in a state that this release does not know."""
        names = {"nobroker_job_state_known", "nobroker_job_end_dated"}
        constraints = [one for one in Job._meta.constraints if one.name in names]
        if connection.vendor == "sqlite":
            execute("PRAGMA ignore_check_constraints = ON")
        else:
            with connection.schema_editor() as editor:
                for constraint in constraints:
                    editor.remove_constraint(Job, constraint)
        try:
            yield
        finally:
            Job.objects.filter(state="parked").delete()
            if connection.vendor == "sqlite":
                execute("PRAGMA ignore_check_constraints = OFF")
            else:
                with connection.schema_editor() as editor:
                    for constraint in constraints:
                        editor.add_constraint(Job, constraint)

    def test_a_job_in_a_state_of_the_future_is_left_alone(self):
        with self.any_state():
            parked = queue.enqueue(1, job_id="parked")
            alter(parked, state="parked")
            before = snapshot(parked)
            queue.enqueue_many(range(9))
            held, expired = queue.lease(2)
            queue.nack(held, error="no", delay=0)
            expire(expired)
            bring_forward(held)
            self.assertEqual(work(nothing).succeeded, 8)
            transitions.reap("default", conf.current().options, in_touch=HOUR)
            self.assertEqual(states(expired), ["ready"])
            bring_forward(expired)
            self.assertEqual(work(nothing).succeeded, 1)
            transitions.prune("default", QueueOptions(keep_done=0.0, keep_dead=0.0), {})
            for operation in (transitions.cancel, transitions.requeue):
                self.assertEqual(operation(Job.objects.filter(pk=parked.pk)), 0)
            self.assertFalse(queue.enqueue(2, job_id="parked").created)
            self.assertEqual(snapshot(parked), before)
            self.assertEqual([job.state for job in queue.list_jobs()], ["parked"])
            call_command("nobroker_stats", stdout=io.StringIO())

    def test_a_column_that_this_release_does_not_know(self):
        execute("ALTER TABLE nobroker_job ADD COLUMN later integer DEFAULT 7 NOT NULL")
        execute("ALTER TABLE nobroker_attempt ADD COLUMN later integer DEFAULT 7 NOT NULL")
        try:
            one, keyed = queue.enqueue(1), queue.enqueue(2, job_id="key")
            self.assertFalse(queue.enqueue(2, job_id="key").created)
            many = queue.enqueue_many([3, 4])
            insert("5")
            self.assertEqual(work(nothing).succeeded, 5)
            self.assertEqual(states(one, keyed, *many), ["done"] * 4)
            dead = Queue(max_attempts=1).enqueue(6)
            self.assertEqual(work(lambda job: 1 / 0).dead, 1)
            self.assertEqual(queue.requeue_dead(), 1)
            self.assertEqual(dead.failed_attempts.count(), 1)
            self.assertEqual(set(execute("SELECT later FROM nobroker_job")), {(7,)})
        finally:
            execute("ALTER TABLE nobroker_job DROP COLUMN later")
            execute("ALTER TABLE nobroker_attempt DROP COLUMN later")


@skipUnless(connection.vendor == "mysql", "only MySQL and MariaDB have row formats")
class RowFormatTests(TransactionTestCase):
    """Where rows are compact, no column of an index may have more than 767 bytes."""

    def test_every_table_can_be_compact(self):
        tables = [model._meta.db_table for model in apps.get_app_config("nobroker").get_models()]
        for table in tables:
            for form in ("COMPACT", "REDUNDANT", "DYNAMIC"):
                with self.subTest(table=table, form=form):
                    execute(f"ALTER TABLE {table} ROW_FORMAT={form}, FORCE")
            execute(f"ALTER TABLE {table} ROW_FORMAT=DEFAULT, FORCE")

    def test_the_widest_index(self):
        widths = execute(
            "SELECT s.index_name, CAST(SUM(c.character_octet_length) AS SIGNED),"
            " MAX(c.character_octet_length) FROM information_schema.statistics s"
            " JOIN information_schema.columns c USING (table_schema, table_name, column_name)"
            " WHERE table_schema = DATABASE() AND table_name LIKE 'nobroker%%'"
            " AND c.character_octet_length IS NOT NULL GROUP BY s.index_name, table_name"
        )
        self.assertLessEqual(max(column for _, _, column in widths), 767)
        name, width, _ = max(widths, key=lambda row: row[1])
        self.assertEqual((name, width), ("nobroker_job_key", (128 + 190) * 4))
