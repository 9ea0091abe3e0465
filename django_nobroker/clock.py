"""The database's own clock, in UTC, at the statement: the only clock that jobs are compared with.

CURRENT_TIMESTAMP will not do: PostgreSQL's stands still from the start of the transaction, and
MySQL's and a raw session's are in the session's time zone. Used by db_default, so the import
path of Now is frozen into migrations.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import DurationField, Expression, FloatField, Func, Value
from django.db.models.functions import Now as DjangoNow

from .fields import UTCDateTimeField

Compiled = tuple[str, Any]


class Now(Func):
    """This instant, by the database's clock."""

    template = "CURRENT_TIMESTAMP"
    allowed_default = True
    arity = 0

    def __init__(self, **extra: Any) -> None:
        super().__init__(output_field=UTCDateTimeField(), **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Compiled:
        return self.as_sql(compiler, connection, template="STATEMENT_TIMESTAMP()", **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Compiled:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Compiled:
        # As Django's own Now, but with the brackets that SQLite wants around a default.
        return self.as_sql(
            compiler,
            connection,
            template="STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f', 'NOW')",
            **context,
        )

    def as_oracle(self, compiler: Any, connection: Any, **context: Any) -> Compiled:
        return self.as_sql(
            compiler, connection, template="SYS_EXTRACT_UTC(SYSTIMESTAMP)", **context
        )


class Ahead(Func):
    """The instant `seconds` from now; before now for a negative number."""

    arity = 1

    def __init__(self, seconds: Any, **extra: Any) -> None:
        if not hasattr(seconds, "resolve_expression"):
            seconds = Value(float(seconds), output_field=FloatField())
        super().__init__(seconds, output_field=UTCDateTimeField(), **extra)

    def as_sql(self, compiler: Any, connection: Any, **context: Any) -> Compiled:  # type: ignore[override]
        """Compile for a database that we know nothing of: its own interval arithmetic."""
        if not context.get("template"):
            seconds = self.get_source_expressions()[0]
            if not isinstance(seconds, Value):
                raise NotImplementedError("This database needs the number of seconds as a value.")
            ahead: Expression = DjangoNow() + Value(
                timedelta(seconds=seconds.value), output_field=DurationField()
            )
            sql, params = compiler.compile(ahead.resolve_expression(compiler.query))
            return sql, params
        return super().as_sql(compiler, connection, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Compiled:
        template = "STATEMENT_TIMESTAMP() + (%(expressions)s) * INTERVAL '1 second'"
        return self.as_sql(compiler, connection, template=f"({template})", **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Compiled:
        template = "(UTC_TIMESTAMP(6) + INTERVAL ROUND((%(expressions)s) * 1000000) MICROSECOND)"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Compiled:
        # PRINTF, since a small number as text would be in the form 1e-05, which SQLite refuses.
        template = (
            "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f', 'NOW',"
            " PRINTF('%%%%+.3f seconds', %(expressions)s))"
        )
        return self.as_sql(compiler, connection, template=template, **context)
