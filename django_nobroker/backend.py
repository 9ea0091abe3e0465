"""The backend for Django's tasks framework (Django 6.0 and newer): a task is a job.

Imported by `@task`, before the apps are ready: models are imported inside functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction

from . import calls, conf
from .exceptions import QueueError
from .policies import policy_of
from .tasks import SUPPORTED

if TYPE_CHECKING:
    from django.tasks import Task
    from django.tasks.backends.base import BaseTaskBackend

    from .models import Job
elif SUPPORTED:
    from django.tasks.backends.base import BaseTaskBackend
else:

    class BaseTaskBackend:
        """Stands in for the class that Django 5.2 does not have yet."""

        def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
            raise ImproperlyConfigured(
                "django_nobroker.backend.NobrokerBackend needs django.tasks, which came with "
                "Django 6.0: upgrade Django, or use django_nobroker.Queue."
            )


NAME = "django_nobroker.backend.NobrokerBackend"
OPTIONS = ("DATABASE",)
Result = Any  # a TaskResult, whatever its task takes and returns
# Positional and keyword arguments of one call.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]


class NobrokerBackend(BaseTaskBackend):
    """Writes tasks as jobs, in the caller's transaction, and reads their results.

    OPTIONS may hold DATABASE, an alias; without it, NOBROKER's, or what the router says.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, dict(params))
        self.given_queues = params.get("QUEUES")

    @property
    def database(self) -> str:
        """The alias of the database that the jobs are in."""
        from . import sql

        return sql.database(self.options.get("DATABASE"))

    def validate_task(self, task: Task[..., Any]) -> None:
        """Raise InvalidTask for a task that cannot be a job."""
        from django.tasks.exceptions import InvalidTask

        super().validate_task(task)
        try:
            conf.checked_queue_name(task.queue_name)
        except QueueError as error:
            raise InvalidTask(str(error)) from None
        if len(task.module_path) > 255:
            raise InvalidTask(f"{task.module_path:.80}… is too long: at most 255 characters.")

    def enqueue(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Result:
        """Write one job in the current transaction; return its result, which is READY.

        Raises TypeError or SerializationError for arguments that JSON cannot hold, InvalidTask
        and QueueError for a task that cannot be enqueued so, and has then written nothing.
        """
        return self.enqueue_many(task, [(args, kwargs)])[0]

    def enqueue_many(self, task: Task[..., Any], arguments: Iterable[Arguments]) -> list[Result]:
        """Write one job for each pair of args and kwargs, all or none; return their results.

        Raises what enqueue() raises.
        """
        from django.tasks.signals import task_enqueued

        from . import results

        self.validate_task(task)
        made = [calls.made(args, kwargs, task.run_after) for args, kwargs in arguments]
        found = [
            results.enqueued(job, task, call, self.alias)
            for job, call in zip(self._write(task, made), made, strict=True)
        ]
        for result in found:
            task_enqueued.send(type(self), task_result=result)
        return found

    async def aenqueue_many(
        self, task: Task[..., Any], arguments: Iterable[Arguments]
    ) -> list[Result]:
        """Write jobs as enqueue_many() does, from async code."""
        return await sync_to_async(self.enqueue_many)(task, arguments)

    def get_result(self, result_id: str) -> Result:
        """Return the result with this id as it is now; raises TaskResultDoesNotExist."""
        from django.tasks.exceptions import TaskResultDoesNotExist

        from . import results

        job = self._job(result_id)
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return results.read(job)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return an error for each option or queue that cannot be used."""
        where = f"TASKS[{self.alias!r}]"
        options: Any = self.options
        if not isinstance(options, Mapping):
            return [Error(f"{where}['OPTIONS'] must be a dictionary.", id="nobroker.E020")]
        found = [
            Error(
                f"{where}['OPTIONS'] has no key {key!r}; it takes {', '.join(OPTIONS)}.",
                hint="Retries and the like are in NOBROKER and in @policy.",
                id="nobroker.E020",
            )
            for key in self.options
            if key not in OPTIONS
        ]
        if isinstance(self.given_queues, str):
            found.append(Error(f"{where}['QUEUES'] must be a list of names.", id="nobroker.E021"))
        for name in sorted(self.queues, key=str):
            try:
                conf.checked_queue_name(name)
            except QueueError as error:
                found.append(Error(f"{where}['QUEUES']: {error}", id="nobroker.E021"))
        if len(self.alias) > 64:
            found.append(Error(f"{where}: the alias is over 64 characters.", id="nobroker.E024"))
        if not apps.is_installed("django_nobroker"):
            found.append(
                Error(f"{where} needs django_nobroker in INSTALLED_APPS.", id="nobroker.E025")
            )
        return [*found, *self._check_database(where)]

    def _check_database(self, where: str) -> list[CheckMessage]:
        alias = self.options.get("DATABASE")
        if alias is None or (isinstance(alias, str) and alias in settings.DATABASES):
            return []
        return [
            Error(
                f"{where}['OPTIONS']['DATABASE'] is {alias!r}, which is not in DATABASES.",
                id="nobroker.E022",
            )
        ]

    def _write(self, task: Task[..., Any], made: Sequence[calls.Call]) -> list[Job]:
        from . import transitions
        from .transitions.enqueue import Terms

        own = policy_of(task.func).max_attempts
        terms = Terms(
            queue=task.queue_name,
            task=task.module_path,
            backend=self.alias,
            priority=task.priority,
            run_after=task.run_after,
            max_attempts=own or conf.current().options(task.queue_name).max_attempts,
        )
        features = connections[self.database].features
        if len(made) == 1 and features.can_return_columns_from_insert:
            return [transitions.enqueue(self.database, made[0].payload, terms)]
        payloads = [call.payload for call in made]
        with transaction.atomic(using=self.database, savepoint=False):
            jobs = transitions.enqueue_many(self.database, payloads, terms)
            # Before anybody can have run and deleted them.
            transitions.load_times(self.database, jobs)
        return jobs

    def _job(self, result_id: Any) -> Job | None:
        """Return the job that a result id names: this backend's, in the one way it is written."""
        from .models import Job

        text = str(result_id)
        if not (text.isascii() and text.isdecimal()) or text.startswith("0") or len(text) > 18:
            return None
        jobs = Job.objects.using(self.database).exclude(task="")
        return jobs.filter(pk=int(text), backend__in=[self.alias, ""]).first()


def check_django(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for TASKS that name our backend where Django has no django.tasks."""
    configured = getattr(settings, "TASKS", None)
    if SUPPORTED or not isinstance(configured, Mapping):
        return []
    return [
        Error(
            f"TASKS[{alias!r}] needs django.tasks, which came with Django 6.0.",
            hint="Upgrade Django, or use django_nobroker.Queue and remove TASKS.",
            id="nobroker.E023",
        )
        for alias, options in configured.items()
        if isinstance(options, Mapping) and options.get("BACKEND") == NAME
    ]
