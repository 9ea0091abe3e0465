"""Fields that mean the same on every database: instants in UTC, and text compared byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute
from django.utils import timezone

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    DateTimeField = models.DateTimeField[Any, Any]
    CharField = models.CharField[Any, Any]
    TextField = models.TextField[Any, Any]
else:
    from django.db.models import CharField, DateTimeField, TextField

# Keys that differ in case, accents or trailing spaces are different keys. The collations
# compare and sort bytes, and bring four-byte UTF-8 with them whatever the database's own
# character set is. SQLite compares bytes by itself.
BYTEWISE = {
    "PostgreSQL": "C",
    "MariaDB": "utf8mb4_nopad_bin",
    "MySQL": "utf8mb4_0900_bin",
}


# The key in the __dict__ of an instance under which columns wait to be converted.
LATE = "_late"


class ReadLate(DeferredAttribute):
    """A column that an instance may hold as the driver gave it, and that is converted when read.

    A worker reads few of the columns of the jobs that it leases by the thousand. What it holds
    is under LATE: a mapping of names to places, and the row.
    """

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is None:
            return self
        values = instance.__dict__
        name = self.field.attname
        # What has been read or set is found without a call of this descriptor.
        if name not in values and (late := values.get(LATE)) is not None and name in late[0]:
            places, row = late
            field: Any = self.field
            values[name] = field.from_raw(row[places[name]])
        return super().__get__(instance, cls)


class UTCDateTimeField(DateTimeField):
    """An instant: aware and in UTC in Python, whatever USE_TZ and any TIME_ZONE say.

    A naive datetime that is written is taken to be in the current TIME_ZONE, as in Django.
    """

    is_text = False
    descriptor_class = ReadLate

    @staticmethod
    def from_raw(value: Any) -> datetime | None:
        """Return the instant for what the driver gave for a time without a zone, in UTC."""
        if value is None:
            return None
        instant = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return instant.replace(tzinfo=UTC)

    def from_db_value(
        self, value: Any, expression: Any, connection: BaseDatabaseWrapper
    ) -> datetime | None:
        is_instant = connection.features.supports_timezones and isinstance(value, datetime)
        if is_instant and timezone.is_aware(value):
            instant: datetime = value.astimezone(UTC)
            return instant
        # Stored without a zone, in UTC: a zone that the backend put on is a guess.
        return self.from_raw(value)

    def get_prep_value(self, value: Any) -> Any:
        value = self.to_python(value)
        if isinstance(value, datetime):
            if timezone.is_naive(value):
                value = timezone.make_aware(value, timezone.get_default_timezone())
            value = value.astimezone(UTC)
        return value

    def get_db_prep_value(
        self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False
    ) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        if not isinstance(value, datetime):
            return value
        if connection.features.supports_timezones:
            return value
        return connection.ops.adapt_datetimefield_value(value.replace(tzinfo=None))

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        # With USE_TZ off the driver answers in local time, where one hour a year is two.
        if compiler.connection.features.supports_timezones and not settings.USE_TZ:
            sql = f"({sql} AT TIME ZONE 'UTC')"
        return sql, params


class BytewiseMixin:
    """Compares and sorts by bytes on every database, and reads whatever is in the row.

    SQLite keeps bytes that are no UTF-8 in a column of text, and its driver then refuses the
    whole result: one such row would break every list. So SQLite is asked for the bytes.
    """

    is_text = True
    descriptor_class: Any = ReadLate

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        parameters: dict[str, Any] = super().db_parameters(connection)  # type: ignore[misc]
        parameters["collation"] = BYTEWISE.get(connection.display_name)
        return parameters

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        if compiler.connection.display_name == "SQLite":
            sql = f"CAST({sql} AS BLOB)"
        return sql, params

    @staticmethod
    def from_raw(value: Any) -> str | None:
        """Return the text for what the driver gave: bytes that are no UTF-8 are shown escaped."""
        if isinstance(value, bytes):
            return value.decode(errors="backslashreplace")
        return value if value is None else str(value)

    def from_db_value(
        self, value: Any, expression: Any, connection: BaseDatabaseWrapper
    ) -> str | None:
        return self.from_raw(value)


class KeyField(BytewiseMixin, CharField):
    """A short text that is compared byte for byte."""


class RawTextField(BytewiseMixin, TextField):
    """A text of any length, kept as it is."""
