"""The page of tables names every table, column, constraint and index, and no other."""

from django.apps import apps
from django.db.models import CheckConstraint
from django.test import SimpleTestCase

from .pages import page

PAGE = "docs/reference/tables.md"


def cells(text):
    return [row.split("|")[1].strip(" `") for row in text.split("\n") if row.startswith("| `")]


class TableTests(SimpleTestCase):
    def test_every_table_has_a_section(self):
        models = apps.get_app_config("nobroker").get_models()
        headings = [h.strip("`") for h in page(PAGE).headings if h.startswith("`")]
        self.assertCountEqual(headings, [model._meta.db_table for model in models])

    def test_every_column_constraint_and_index_is_described(self):
        for model in apps.get_app_config("nobroker").get_models():
            meta = model._meta
            section = page(PAGE).section(f"`{meta.db_table}`")
            columns = {field.column for field in meta.concrete_fields}
            others = {one.name for one in [*meta.constraints, *meta.indexes]}
            with self.subTest(table=meta.db_table):
                self.assertLessEqual(columns, set(cells(section)))
                self.assertLessEqual(set(cells(section)), columns | others)
                for name in others:
                    self.assertIn(f"`{name}`", section)

    def test_every_number_and_time_of_a_job_is_bounded(self):
        job = apps.get_model("nobroker", "Job")
        checks = " ".join(
            str(c.condition) for c in job._meta.constraints if isinstance(c, CheckConstraint)
        )
        for field in job._meta.concrete_fields:
            kind = field.get_internal_type()
            if kind in {"SmallIntegerField", "IntegerField", "FloatField", "DateTimeField"}:
                self.assertIn(field.name, checks)

    def test_defaults_are_right(self):
        section = page(PAGE).section("`nobroker_job`")
        rows = {row.split("|")[1].strip(" `"): row for row in section.split("\n") if "|" in row}
        for field in apps.get_model("nobroker", "Job")._meta.concrete_fields:
            shown = rows[field.column].split("|")[3].strip(" `")
            default = getattr(field.db_default, "value", field.db_default)
            with self.subTest(column=field.column):
                if field.primary_key or field.column == "payload":
                    self.assertIn(shown, ("counted", "none"))
                elif field.null:
                    self.assertEqual(shown, "null")
                elif isinstance(default, str | int):
                    self.assertEqual(shown, str(default) or "empty")
                else:
                    self.assertEqual(shown, "now")
