"""The package as a project meets it: its names, its app, and its migrations."""

import subprocess
import sys
from io import StringIO

from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import SimpleTestCase, TransactionTestCase

import django_nobroker
from django_nobroker import Queue
from django_nobroker.models import Format

from .processes import ROOT


class NamesTests(SimpleTestCase):
    def test_every_name_can_be_had(self):
        for name in django_nobroker.__all__:
            with self.subTest(name=name):
                # In particular no module of the same name.
                self.assertTrue(callable(getattr(django_nobroker, name)))

    def test_no_other_name_can(self):
        with self.assertRaisesMessage(AttributeError, "'Quue'"):
            django_nobroker.Quue  # noqa: B018

    def test_settings_may_import_it(self):
        code = (
            "import sys; from django_nobroker import BackoffPolicy, Snooze, policy;"
            "assert not [m for m in sys.modules if m.endswith(('.models', '.worker', '.queue'))]"
        )
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)

    def test_the_app(self):
        config = apps.get_app_config("nobroker")
        self.assertEqual(config.name, "django_nobroker")
        self.assertEqual(str(config.verbose_name), "Background jobs")


class MigrationTests(TransactionTestCase):
    def test_to_nothing_and_back(self):
        Queue().enqueue({})
        self.addCleanup(call_command, "migrate", "nobroker", verbosity=0)
        call_command("migrate", "nobroker", "zero", verbosity=0)
        tables = connection.introspection.table_names()
        self.assertEqual([name for name in tables if name.startswith("nobroker")], [])
        call_command("migrate", "nobroker", verbosity=0)
        self.assertEqual(Format.objects.count(), 1)
        job = Queue().enqueue({"a": 1}, job_id="key")
        self.assertEqual(Queue().lease_one(), job)

    def test_the_sql_can_be_shown(self):
        for backwards in (False, True):
            out = StringIO()
            call_command("sqlmigrate", "nobroker", "0001", backwards=backwards, stdout=out)
            self.assertIn("nobroker_job", out.getvalue())
