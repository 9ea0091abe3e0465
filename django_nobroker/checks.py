"""System checks of the NOBROKER setting. Those of databases are in `sql/checks.py`."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error

from . import conf


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each key or value of NOBROKER that cannot be used."""
    return [
        Error(problem.message, hint="See docs/reference/settings.md.", id=problem.id)
        for problem in conf.problems()
    ]
