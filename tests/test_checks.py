"""System checks: those of the settings run always, those of a database when it is named."""

from io import StringIO
from unittest import skipIf, skipUnless

from django.core.checks import Tags, run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings

from django_nobroker import sql
from django_nobroker.sql import checks


class SettingsTests(TestCase):
    @override_settings(NOBROKER={"MAX_ATEMPTS": 5})
    def test_manage_check_says_what_is_wrong(self):
        with self.assertRaisesMessage(CommandError, "nobroker.E002"):
            call_command("check", stdout=StringIO())

    @override_settings(NOBROKER={"MAX_ATEMPTS": 5})
    def test_so_does_the_check_of_a_database(self):
        with self.assertRaisesMessage(CommandError, "nobroker.E002"):
            call_command("check", databases=["default"], stdout=StringIO())


class DatabaseTests(TestCase):
    def test_this_database_has_no_problem(self):
        found = run_checks(tags=[Tags.database], databases=["default"])
        self.assertEqual([message for message in found if "nobroker" in message.id], [])

    def test_nothing_is_asked_of_a_database_that_is_not_named(self):
        with self.assertNumQueries(0):
            self.assertEqual(checks.check_databases(databases=None), [])
            self.assertEqual(checks.check_databases(databases=[]), [])

    def test_migrations_are_complete(self):
        call_command("makemigrations", "nobroker", check=True, dry_run=True, verbosity=0)

    def test_versions_that_are_too_old(self):
        floor = checks.FLOORS.get(connection.display_name)
        if floor is None:
            self.skipTest("Django's own floor holds here")
        found = connection.get_database_version()
        checks.FLOORS[connection.display_name] = (found[0] + 1, 0)
        self.addCleanup(checks.FLOORS.__setitem__, connection.display_name, floor)
        [error] = checks.check_databases(databases=["default"])
        self.assertEqual(error.id, "nobroker.E010")
        self.assertIn(str(found[0] + 1), error.hint)


@skipIf(type(sql.dialect(connection)) is sql.Dialect, "the plain path knows no server")
class ServerTests(TransactionTestCase):
    def warnings(self):
        return {message.id for message in checks.check_databases(databases=["default"])}

    def run_sql(self, statement):
        with connection.cursor() as cursor:
            cursor.execute(statement)

    @skipUnless(connection.vendor == "postgresql", "for PostgreSQL")
    def test_asynchronous_commit(self):
        self.run_sql("SET synchronous_commit = off")
        self.addCleanup(connection.close)
        self.assertEqual(self.warnings(), {"nobroker.W004"})

    @skipUnless(connection.vendor == "sqlite", "for SQLite")
    def test_pragmas(self):
        for statement, wanted in (
            ("PRAGMA synchronous = NORMAL", {"nobroker.W004"}),
            ("PRAGMA busy_timeout = 100", {"nobroker.W004", "nobroker.W003"}),
        ):
            self.run_sql(statement)
            self.addCleanup(connection.close)
            self.assertEqual(self.warnings(), wanted)

    @skipUnless(connection.vendor == "sqlite", "for SQLite")
    def test_deferred_transactions(self):
        options = connection.settings_dict["OPTIONS"]
        self.addCleanup(options.__setitem__, "transaction_mode", options.pop("transaction_mode"))
        self.assertEqual(self.warnings(), {"nobroker.W002"})

    @skipUnless(connection.vendor == "mysql", "for MySQL and MariaDB")
    def test_isolation(self):
        options = connection.settings_dict["OPTIONS"]
        self.addCleanup(options.pop, "isolation_level")
        options["isolation_level"] = "repeatable read"
        self.assertEqual(self.warnings(), {"nobroker.W005"})
        options["isolation_level"] = "READ COMMITTED"
        self.assertEqual(self.warnings(), set())
