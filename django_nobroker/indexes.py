"""Indexes and unique constraints that cover only the rows they are for, where the database can.

Django's own `condition` warns on MySQL (models.W037, W036), which has no partial indexes. These
have none to show: where partial indexes are missing they put the columns of `instead` into a
plain index. Their import path is frozen into migrations.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.constraints import UniqueConstraint


class PartialIndex(models.Index):
    """An index over the rows that match `where`; elsewhere a plain one over `instead`."""

    def __init__(
        self, *, fields: list[str], name: str, where: models.Q, instead: list[str] | None = None
    ) -> None:
        super().__init__(fields=fields, name=name)
        self.where = where
        self.instead = instead or fields

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if schema_editor.connection.features.supports_partial_indexes:
            index = models.Index(fields=self.fields, name=self.name, condition=self.where)
        else:
            index = models.Index(fields=self.instead, name=self.name)
        return index.create_sql(model, schema_editor, using=using, **kwargs)

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        kwargs["where"] = self.where
        if self.instead != self.fields:
            kwargs["instead"] = self.instead
        return path, args, kwargs


class KeyConstraint(UniqueConstraint):
    """At most one row for each value of the fields; rows whose last field is NULL are free.

    That is what SQL's own UNIQUE does. Being partial as well spares the index an entry for
    every row without a key.
    """

    def _partial(self, schema_editor: Any) -> UniqueConstraint | None:
        if not schema_editor.connection.features.supports_partial_indexes:
            return None
        has_key = models.Q(**{f"{self.fields[-1]}__isnull": False})
        return UniqueConstraint(fields=self.fields, name=self.name, condition=has_key)

    def constraint_sql(self, model: Any, schema_editor: Any) -> Any:
        constraint = self._partial(schema_editor)
        if constraint is None:
            return super().constraint_sql(model, schema_editor)
        return constraint.constraint_sql(model, schema_editor)

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        constraint = self._partial(schema_editor)
        if constraint is None:
            return super().create_sql(model, schema_editor)
        return constraint.create_sql(model, schema_editor)

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        constraint = self._partial(schema_editor)
        if constraint is None:
            return super().remove_sql(model, schema_editor)
        return constraint.remove_sql(model, schema_editor)
