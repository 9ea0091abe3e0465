"""A task and a handler for a project in which there are no apps but the queue."""

from django.apps import apps
from django.tasks import task


@task
def double(number):
    assert [app.name for app in apps.get_app_configs()] == ["django_nobroker"]
    return 2 * number


def look(job):
    assert not apps.is_installed("django.contrib.contenttypes")
    assert job.payload == [1]
