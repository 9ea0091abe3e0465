"""Which Task a row names. What a row names is called only if it is one.

A path that cannot be followed here may be good in another release, so it is told apart from one
that leads to something else.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

from .exceptions import NotATask, UnknownTask

if TYPE_CHECKING:
    from django.tasks import Task

# Whether this Django has `django.tasks`.
SUPPORTED = django.VERSION >= (6, 0)


def find(path: str) -> Task[..., Any]:
    """Return the Task at a dotted path.

    Raises UnknownTask where the path cannot be followed, whatever its module does while it is
    imported, and NotATask where it leads to something else. The standard library holds no
    tasks: nothing of it is imported on behalf of a row.
    """
    from django.tasks import Task

    parts = path.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise NotATask(f"{path!r:.200} is not the dotted path of a task.")
    if _is_standard(parts[0]):
        raise NotATask(f"{path:.200} is in Python's standard library, which has no tasks.")
    try:
        importlib.invalidate_caches()
        found = pkgutil.resolve_name(path)
    except (Exception, SystemExit) as error:
        raise UnknownTask(
            f"The task {path:.200} cannot be imported here: {type(error).__name__}: {error!s:.500}."
        ) from error
    if not isinstance(found, Task):
        raise NotATask(
            f"{path:.200} is a {type(found).__name__}, not a Task: it needs Django's @task."
        )
    return found


def signature_of(task: Task[..., Any]) -> inspect.Signature:
    """Return what a task takes from those who enqueue it: its context is not theirs to give."""
    signature = inspect.signature(task.func)
    if not task.takes_context:
        return signature
    context, *others = signature.parameters.values()
    if context.kind not in {context.POSITIONAL_ONLY, context.POSITIONAL_OR_KEYWORD}:
        return signature
    return signature.replace(parameters=others)


def _is_standard(package: str) -> bool:
    """Return whether a top-level name is the standard library's own, and not one in its place."""
    if package not in sys.stdlib_module_names:
        return False
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return True
    if spec is None or spec.origin is None or not spec.has_location:
        return True
    home = Path(sysconfig.get_path("stdlib")).resolve()
    return Path(spec.origin).resolve().is_relative_to(home)
