"""Start other processes on the database that the calling test is using.

They see only what is committed: such tests belong in a TransactionTestCase.
"""

import os
import subprocess
import sys
from pathlib import Path

from django.db import connections
from django.test import tag

ROOT = Path(__file__).resolve().parent.parent

# Marks a test class or method to run after all parallel ones, with the machine to itself:
# for tests that start several processes or measure time.
alone = tag("alone")


def environment(alias="default"):
    """Return the variables under which a process uses the test's own database."""
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "NOBROKER_TEST_DATABASE": os.environ.get("NOBROKER_TEST_DATABASE") or "sqlite",
        "NOBROKER_TEST_DBNAME": str(connections[alias].settings_dict["NAME"]),
        "NOBROKER_TEST_SQL": os.environ.get("NOBROKER_TEST_SQL", ""),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "error",
    }


def spawn(*args, **options):
    """Start Python on the arguments: `spawn("-m", "django", "nobroker_work", "--burst")`.

    Standard output and error come together, as text, through one pipe; a process that says much
    and is not read from wants `stdout=subprocess.DEVNULL`, or it stops when the pipe is full.
    """
    settings = {
        "cwd": ROOT,
        "env": environment(),
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }
    return subprocess.Popen([sys.executable, *map(str, args)], **(settings | options))


def finish(process, timeout=60, code=0):
    """Wait for the process and return what it said; kill it at the timeout, in seconds.

    Raises AssertionError with its output if it ends otherwise than with the exit code.
    """
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"Still running after {timeout} s:\n{output}") from None
    if process.returncode != code:
        raise AssertionError(f"Exit code {process.returncode}, not {code}:\n{output}")
    return output
