"""The errors that the queue raises; each message names the job, the queue and the next step."""

from __future__ import annotations

from django.core.exceptions import ObjectDoesNotExist


class NobrokerError(Exception):
    """Base of every error that django-nobroker raises on purpose."""


class SerializationError(NobrokerError, ValueError):
    """A payload that JSON cannot hold exactly, or that is too large; nothing was written."""


class JobNotFound(NobrokerError, ObjectDoesNotExist):
    """No job has this id or key."""


class LeaseLost(NobrokerError):
    """The lease of this job has ended; whoever holds the job now decides its fate."""


class QueueError(NobrokerError, ValueError):
    """A bad name, option or range; nothing was written."""


class LeaseInTransaction(QueueError, RuntimeError):
    """Leasing inside an open transaction: a rollback would run a job that nobody leased."""


class HandlerNotFound(QueueError, ImportError):
    """The dotted path of a handler leads nowhere, or to something that cannot be called."""


class UnknownTask(NobrokerError):
    """This worker cannot import the task, or bind its arguments; another release may."""


class NotATask(NobrokerError):
    """The path in a job's row leads to something that is no Task, and is never called."""


class DatabaseNotReady(NobrokerError):
    """The tables are missing, or of a format that this release does not know."""
