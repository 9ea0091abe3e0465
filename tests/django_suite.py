"""Run Django's own tests of its tasks against our backend, from the sources of this Django.

    python tests/django_suite.py --database postgresql --django 6.0

Nothing of Django's tests is kept here: they are downloaded, changed as SWAPS and LEFT_OUT say in
a directory of their own, and run from there. Every test of theirs runs, but for those in LEFT_OUT,
which are counted as skipped. The last line says `N passed, N failed, N skipped`; the exit code is
0 only if something ran and nothing failed. Servers are found as `runtests.py` finds them.
"""

import argparse
import ast
import os
import subprocess
import sys
import tarfile
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # instead of tests/, whose modules are to be found in their package only

import bootstrap  # noqa: E402
import runtests  # noqa: E402

DJANGOS = [version for version in bootstrap.DJANGOS if version != "5.2"]
# The modules of Django's backends that ours stand in for; tests without them run unchanged.
BACKENDS = ("django.tasks.backends.dummy", "django.tasks.backends.immediate")

# Goes before the text of each module that is changed.
PRELUDE = """\
import unittest

from tests.django_suite_backend import clear, off_loop, stored, work
"""

# Text of Django's tests, and what stands in its place. Each must be found somewhere.
SWAPS = {
    "from django.tasks.backends.dummy import DummyBackend": (
        "from django_nobroker.backend import NobrokerBackend as DummyBackend"
    ),
    "from django.tasks.backends.immediate import ImmediateBackend": (
        "from tests.django_suite_backend import DrainingBackend as ImmediateBackend"
    ),
    "django.tasks.backends.dummy.DummyBackend": "django_nobroker.backend.NobrokerBackend",
    "django.tasks.backends.immediate.ImmediateBackend": (
        "tests.django_suite_backend.DrainingBackend"
    ),
    # Jobs are rows, and workers see only what is committed.
    "SimpleTestCase": "TransactionTestCase",
    # With it, the tables of the jobs would not be emptied after the test.
    "    available_apps = []\n": "",
    # What the dummy keeps in a list, ours has in a table.
    "default_task_backend.clear()": "clear()",
    "default_task_backend.results": "off_loop(stored)",
    # Where the dummy's test puts the success in itself, a worker runs the task.
    'object.__setattr__(enqueued_result, "status", TaskResultStatus.SUCCESSFUL)': "off_loop(work)",
    # Django's databases refuse to work in coroutines, which is where these are called.
    'default_task_backend.get_result("123")': 'off_loop(default_task_backend.get_result, "123")',
    'test_tasks.noop_task.get_result("123")': 'off_loop(test_tasks.noop_task.get_result, "123")',
    " result.refresh()": " off_loop(result.refresh)",
}

# Tests that ask for what is no duty of ours: module.class.test, and why.
KEEPS_RESULTS = "asks that the backend cannot retrieve results; ours can"
LEFT_OUT = {
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": KEEPS_RESULTS,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": KEEPS_RESULTS,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": (
        "asks that the backend refuses run_after; ours defers tasks"
    ),
    "test_immediate_backend.ImmediateBackendTestCase.test_throws_keyboard_interrupt": (
        "asks that enqueue() raises what the task raises; ours runs in a worker, not in enqueue()"
    ),
    "test_immediate_backend.ImmediateBackendTransactionTestCase"
    ".test_doesnt_wait_until_transaction_commit_by_default": (
        "asks that the task has run before the caller's commit; workers see only what is committed"
    ),
}


def main():
    """Run what was asked for, and say how it went."""
    options = parse()
    if not options.no_bootstrap:
        extras = {options.database} - {"sqlite"}
        bootstrap.enter("tests", django=options.django, extras=extras)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="nobroker-django-") as directory:
        passed, failed, skipped = run_here(options, Path(directory))
    sys.stderr.flush()
    say(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed else 0)


def parse():
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", choices=runtests.DATABASES, default="sqlite")
    runtests.add_choices(parser, DJANGOS)
    return parser.parse_args()


def run_here(options, directory):
    """Run the tests on one database, in this process; return the three counts."""
    runtests.choose(options.database, directory)
    import django
    from django.conf import settings

    import tests  # noqa: F401 - from here on, warnings are errors

    settings.NOBROKER = {"MAX_ATTEMPTS": 1}  # Django's own backends try once
    django.setup()
    from tests.runner import Runner

    python = sys.version.split()[0]
    say(f"Python {python}, Django {django.__version__}, {options.database}")
    runner = Runner(
        verbosity=options.verbosity,
        interactive=False,
        buffer=True,
        test_name_patterns=runtests.name_patterns(options),
    )
    try:
        package = unpacked(downloaded(django.__version__, directory), directory)
        change(package)
        sys.path.insert(0, str(package.parent))
        runner.run_tests([f"tasks.{path.stem}" for path in sorted(package.glob("test_*.py"))])
    except (Exception, SystemExit):  # Django exits where a test database cannot be created
        traceback.print_exc()
        passed, failed, skipped = runner.counts
        return passed, failed + 1, skipped
    return runner.counts


def downloaded(version, directory):
    """Download the source distribution of a Django; return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", "Django", f"Django=={version}", "-d", str(directory)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"Django {version} could not be downloaded:\n{done.stderr}")
    [archive] = directory.glob("*.tar.gz")
    return archive


def unpacked(archive, directory):
    """Unpack Django's tests of tasks; return where they are. They must be the package `tasks`."""
    with tarfile.open(archive) as tar:
        inside = f"{archive.name.removesuffix('.tar.gz')}/tests/tasks/"
        members = [member for member in tar.getmembers() if member.name.startswith(inside)]
        tar.extractall(directory, members, filter="data")
    return directory / inside


def change(package):
    """Change the tests in place. Raises LookupError for an entry that fits nothing any more."""
    unused = {*SWAPS, *LEFT_OUT}
    for path in sorted(package.glob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if not any(backend in source for backend in BACKENDS):
            continue  # it brings backends of its own
        source = PRELUDE + left_out(path.stem, swapped(source, unused), unused)
        path.write_text(source, encoding="utf-8")
    if unused:
        raise LookupError(f"Not in the tests of this Django: {', '.join(sorted(unused))}")


def swapped(source, unused):
    """Return the source with our backend in the place of Django's."""
    for old, new in SWAPS.items():
        if old in source:
            unused.discard(old)
            source = source.replace(old, new)
    return source


def left_out(module, source, unused):
    """Return the source with a skip, and its reason, on each test that is left out."""
    lines = source.splitlines(keepends=True)
    for kind in reversed(ast.parse(source).body):
        for test in reversed(kind.body if isinstance(kind, ast.ClassDef) else []):
            name = f"{module}.{kind.name}.{getattr(test, 'name', '')}"
            if name in LEFT_OUT:
                unused.discard(name)
                skip = f"@unittest.skip({LEFT_OUT[name]!r})\n"
                lines.insert(test.lineno - 1, " " * test.col_offset + skip)
    return "".join(lines)


def say(text):
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
