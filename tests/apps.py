"""The test app: chooses the SQL under test before any test or worker uses it."""

import os

from django.apps import AppConfig


class TestsConfig(AppConfig):
    name = "tests"

    def ready(self):
        if os.environ.get("NOBROKER_TEST_SQL") == "base":
            from django_nobroker import sql

            sql.force_base(True)
