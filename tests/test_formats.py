"""The version of the tables: written by migrate, current where it is missing."""

from django.core.management.sql import emit_post_migrate_signal
from django.db import connection
from django.test import TestCase, TransactionTestCase

from django_nobroker import formats
from django_nobroker.exceptions import DatabaseNotReady
from django_nobroker.models import FORMAT_VERSION, Format, Job


class VersionTests(TestCase):
    def test_a_missing_row_is_current(self):
        Format.objects.all().delete()
        self.assertEqual(formats.version("default"), FORMAT_VERSION)

    def test_migrate_writes_it(self):
        Format.objects.all().delete()
        emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
        self.assertEqual(Format.objects.get().version, FORMAT_VERSION)

    def test_migrate_raises_it(self):
        Format.objects.update_or_create(key=formats.KEY, defaults={"version": FORMAT_VERSION - 1})
        formats.write("default")
        self.assertEqual(Format.objects.get().version, FORMAT_VERSION)

    def test_migrate_of_an_older_release_leaves_it(self):
        Format.objects.update_or_create(key=formats.KEY, defaults={"version": 99})
        formats.write("default")
        self.assertEqual(formats.version("default"), 99)


class MissingTablesTests(TransactionTestCase):
    def test_are_told_from_other_trouble(self):
        with connection.schema_editor() as editor:
            editor.alter_db_table(Format, "nobroker_meta", "elsewhere_meta")
            editor.alter_db_table(Job, "nobroker_job", "elsewhere_job")
        try:
            with self.assertRaisesMessage(DatabaseNotReady, "manage.py migrate"):
                formats.version("default")
            formats.write("default")
        finally:
            with connection.schema_editor() as editor:
                editor.alter_db_table(Format, "elsewhere_meta", "nobroker_meta")
                editor.alter_db_table(Job, "elsewhere_job", "nobroker_job")
        self.assertEqual(formats.version("default"), FORMAT_VERSION)
