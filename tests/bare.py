"""Settings of a project that has nothing but the queue: no admin, no auth, no content types."""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["django_nobroker"]
