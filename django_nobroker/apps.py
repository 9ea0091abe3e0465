"""The app: checks, and the version of the tables after migrate."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks as django_checks
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class NobrokerConfig(AppConfig):
    """Registers what Django is to know of the queue."""

    name = "django_nobroker"
    label = "nobroker"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import backend, checks
        from .sql import checks as database_checks

        django_checks.register(checks.check_settings)
        django_checks.register(backend.check_django)
        django_checks.register(database_checks.check_databases, django_checks.Tags.database)
        post_migrate.connect(write_format, sender=self, dispatch_uid="nobroker.format")


def write_format(*, using: str, plan: Any = None, **kwargs: Any) -> None:
    """Note the version of the tables, where they are."""
    from . import formats

    formats.write(using)
