"""Conditions for CHECK constraints, so that no row can be what a worker or a list cannot read.

Each bounds what it checks from both sides: a database may hold infinity, the year 10000 or
any text in a column of times, and reading one such row would break every list.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BooleanField, F, Func


class ValidTime(Func):
    """The column is NULL or an instant from 1970 to 9999, in the form that sorts."""

    template = (
        "(%(expressions)s IS NULL OR (%(expressions)s >= '1970-01-01 00:00:00%(zone)s'"
        " AND %(expressions)s < '9999-12-31 00:00:00%(zone)s'%(form)s))"
    )
    # SQLite keeps any text; only YYYY-MM-DD HH:MM:SS with or without a fraction compares right.
    sqlite_form = (
        " AND length(CAST(%(column)s AS BLOB)) = length(%(column)s)"
        " AND strftime('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%S', substr(%(column)s,1,19), '+0 days')"
        " IS substr(%(column)s,1,19)"
        " AND %(column)s GLOB"
        " '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*'"
        " AND (length(%(column)s) = 19 OR (substr(%(column)s,20) GLOB '.[0-9]*'"
        " AND substr(%(column)s,21) NOT GLOB '*[^0-9]*'))"
    )
    conditional = True

    def __init__(self, field: str | F, **extra: Any) -> None:
        super().__init__(field, output_field=BooleanField(), **extra)

    def as_sql(self, compiler: Any, connection: Any, **context: Any) -> Any:  # type: ignore[override]
        zone = "+00" if connection.features.supports_timezones else ""
        return super().as_sql(compiler, connection, **{"zone": zone, "form": "", **context})

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # Without strict mode a day or month of 0 is stored, and read as NULL.
        column, _ = compiler.compile(self.get_source_expressions()[0])
        form = f" AND MONTH({column}) > 0 AND DAYOFMONTH({column}) > 0"
        return self.as_sql(compiler, connection, form=form)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, _ = compiler.compile(self.get_source_expressions()[0])
        return self.as_sql(compiler, connection, form=self.sqlite_form % {"column": column})


class ValidName(Func):
    """The column is a queue's name: 1 to 128 of A-Z a-z 0-9 _ . and -."""

    template = (
        "(LENGTH(%(expressions)s) BETWEEN 1 AND 128 AND %(expressions)s !~ '[^A-Za-z0-9_.-]')"
    )
    conditional = True

    def __init__(self, field: str | F, **extra: Any) -> None:
        super().__init__(field, output_field=BooleanField(), **extra)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = (
            "(CHAR_LENGTH(%(expressions)s) BETWEEN 1 AND 128"
            " AND %(expressions)s NOT REGEXP '[^A-Za-z0-9_.-]')"
        )
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # Not REGEXP: other programs' connections have no such function.
        template = (
            "(typeof(%(expressions)s) = 'text'"
            " AND length(CAST(%(expressions)s AS BLOB)) = length(%(expressions)s)"
            " AND length(%(expressions)s) BETWEEN 1 AND 128"
            " AND %(expressions)s NOT GLOB '*[^A-Za-z0-9_.-]*')"
        )
        return self.as_sql(compiler, connection, template=template, **context)

    def as_oracle(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "REGEXP_LIKE(%(expressions)s, '^[A-Za-z0-9_.-]{1,128}$')"
        return self.as_sql(compiler, connection, template=template, **context)


class Between(Func):
    """The column is a whole number within its bounds, both included."""

    template = "(%(expressions)s BETWEEN %(least)s AND %(most)s)"
    conditional = True

    def __init__(self, field: str | F, *, least: int, most: int, **extra: Any) -> None:
        super().__init__(
            field, output_field=BooleanField(), least=int(least), most=int(most), **extra
        )

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # Any column of SQLite takes any type.
        template = f"(typeof(%(expressions)s) = 'integer' AND {self.template})"
        return self.as_sql(compiler, connection, template=template, **context)
