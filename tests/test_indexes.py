"""Indexes that cover only the rows they are for, where the database can."""

from django.db import connection, models
from django.db.migrations.writer import MigrationWriter
from django.test import SimpleTestCase, TransactionTestCase

from django_nobroker.indexes import KeyConstraint, PartialIndex
from django_nobroker.models import Job

INDEX = PartialIndex(
    fields=["queue"], name="x", where=models.Q(state="ready"), instead=["state", "queue"]
)


def collected(*calls):
    """Return what the schema editor would run, without running it."""
    with connection.constraint_checks_disabled(), connection.schema_editor(True) as editor:
        for name, *args in calls:
            getattr(editor, name)(*args)
    return [str(statement) for statement in editor.collected_sql]


class DeconstructionTests(SimpleTestCase):
    def test_a_migration_can_make_the_index_again(self):
        path, args, kwargs = INDEX.deconstruct()
        again = PartialIndex(*args, **kwargs)
        self.assertEqual(path, "django_nobroker.indexes.PartialIndex")
        self.assertEqual(again.deconstruct(), INDEX.deconstruct())
        text, imports = MigrationWriter.serialize(INDEX)
        self.assertIn("instead=", text)
        self.assertIn("import django_nobroker.indexes", imports)

    def test_so_with_the_constraint(self):
        constraint = KeyConstraint(fields=["queue", "job_id"], name="x")
        path, args, kwargs = constraint.deconstruct()
        self.assertEqual(path, "django_nobroker.indexes.KeyConstraint")
        self.assertEqual(KeyConstraint(*args, **kwargs), constraint)


class SchemaTests(TransactionTestCase):
    def test_an_index_covers_its_rows_where_it_can(self):
        [statement] = collected(("add_index", Job, INDEX))
        if connection.features.supports_partial_indexes:
            self.assertRegex(statement, r"\(.queue.\) WHERE .state. = 'ready'")
        else:
            self.assertRegex(statement, r"\(.state., .queue.\)")

    def test_the_key_can_be_dropped_and_made_again(self):
        [key] = [each for each in Job._meta.constraints if each.name == "nobroker_job_key"]
        statements = collected(("remove_constraint", Job, key), ("add_constraint", Job, key))
        made = [each for each in statements if "nobroker_job_key" in each][-1]
        self.assertIn("UNIQUE", made)
        if connection.features.supports_partial_indexes:
            self.assertRegex(made, "WHERE .job_id. IS NOT NULL")

    def test_all_are_there_by_their_names(self):
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, Job._meta.db_table)
        wanted = {index.name for index in Job._meta.indexes} | {"nobroker_job_key"}
        self.assertLessEqual(wanted, set(found))
        self.assertTrue(found["nobroker_job_key"]["unique"])
