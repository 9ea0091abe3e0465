"""Run the suite with Django's own runner, in an environment of its own.

The last line says `N passed, N failed, N skipped`; the exit code is 0 only if something ran and
nothing failed. Servers are found by POSTGRES_HOST, _PORT, _USER, _PASSWORD and MYSQL_HOST, _PORT,
_USER, _PASSWORD; without them, on this machine at their usual ports.
"""

import argparse
import multiprocessing
import os
import re
import secrets
import subprocess
import sys
import tempfile
import traceback

import bootstrap

DATABASES = ("sqlite", "postgresql", "mysql")


def main():
    """Run what was asked for, and say how it went."""
    options = parse()
    os.chdir(bootstrap.ROOT)
    if options.database == "all":
        counts = run_each(options)
    else:
        if not options.no_bootstrap:
            extras = {options.database} - {"sqlite"}
            bootstrap.enter("tests", django=options.django, extras=extras)
        with tempfile.TemporaryDirectory(prefix="nobroker-tests-") as directory:
            counts = run_here(options, directory)
    passed, failed, skipped = counts
    sys.stderr.flush()
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed or not passed + skipped else 0)


def parse():
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", nargs="*", help="dotted names; without any, the whole suite")
    parser.add_argument("--database", choices=(*DATABASES, "all"), default="sqlite")
    add_choices(parser, bootstrap.DJANGOS)
    parser.add_argument("--sql", choices=("base",), help="force the plain ORM path")
    parser.add_argument(
        "--parallel", type=int, metavar="N", help="processes; default: one per core"
    )
    parser.add_argument("--failfast", action="store_true", help="stop at the first failure")
    return parser.parse_args()


def add_choices(parser, djangos):
    """Add what every run of tests can be told, Django's own included."""
    parser.add_argument("--django", choices=djangos, help="default: the newest")
    parser.add_argument("-k", action="append", dest="patterns", help="only tests that match")
    parser.add_argument("-v", "--verbosity", type=int, choices=range(4), default=1)
    parser.add_argument(
        "--no-bootstrap", action="store_true", help="use the Python that runs this as it is"
    )


def choose(database, directory, sql=None):
    """Choose settings, database and SQL for this process and those that it starts."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ["NOBROKER_TEST_DATABASE"] = database
    os.environ["NOBROKER_TEST_SQL"] = sql or ""
    os.environ["NOBROKER_TEST_DIR"] = str(directory)
    os.environ["NOBROKER_TEST_RUN"] = secrets.token_hex(4)


def name_patterns(options):
    """Return what the names of the tests must match, as Django's runner wants it."""
    return [p if "*" in p else f"*{p}*" for p in options.patterns or ()] or None


def run_here(options, directory):
    """Run the suite on one database, in this process; return the three counts."""
    choose(options.database, directory, options.sql)
    import django

    import tests  # noqa: F401 - from here on, warnings are errors

    django.setup()
    from tests.runner import Runner

    parallel = processes(options.parallel)
    print(describe(options, parallel), flush=True)
    runner = Runner(
        verbosity=options.verbosity,
        interactive=False,
        failfast=options.failfast,
        test_name_patterns=name_patterns(options),
        parallel=parallel,
    )
    try:
        runner.run_tests(options.labels or ["tests"])
    except (Exception, SystemExit):  # Django exits where a test database cannot be created
        traceback.print_exc()
        passed, failed, skipped = runner.counts
        return passed, failed + 1, skipped
    return runner.counts


def processes(wanted):
    """Return how many to run in: as many as wanted, or one per core; one where they cannot fork."""
    # Started afresh instead, they would keep SQLite databases in memory, out of the reach of the
    # workers that tests start. Python 3.14 forks only when asked to.
    if sys.platform != "linux":
        return 1
    multiprocessing.set_start_method("fork", force=True)
    return wanted or multiprocessing.cpu_count()


def describe(options, parallel):
    """Name the versions and the database of this run."""
    import django

    sql = f", {options.sql} SQL" if options.sql else ""
    number = f"{parallel} process{'es' if parallel > 1 else ''}"
    python = sys.version.split()[0]
    return f"Python {python}, Django {django.__version__}, {options.database}{sql}, {number}"


def run_each(options):
    """Run every database in turn, each in a process of its own; return the sums."""
    legs = [(database, options.sql) for database in DATABASES]
    if not options.sql:
        legs.insert(1, ("sqlite", "base"))
    totals = [0, 0, 0]
    for database, sql in legs:
        counts = run_leg(options, database, sql)
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    return totals


def run_leg(options, database, sql):
    """Run one database in a process of its own; return the three counts."""
    command = [sys.executable, __file__, "--database", database, f"-v{options.verbosity}"]
    command += ["--sql", sql] if sql else []
    command += ["--django", options.django] if options.django else []
    command += ["--parallel", str(options.parallel)] if options.parallel else []
    command += ["--failfast"] if options.failfast else []
    command += ["--no-bootstrap"] if options.no_bootstrap else []
    command += [word for pattern in options.patterns or () for word in ("-k", pattern)]
    line = ""
    with subprocess.Popen([*command, *options.labels], stdout=subprocess.PIPE, text=True) as leg:
        for line in leg.stdout:
            print(line, end="", flush=True)
    counted = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", line.strip())
    passed, failed, skipped = map(int, counted.groups()) if counted else (0, 0, 0)
    # A leg that ended before it could count, or that found no test, is a failure of its own.
    return passed, failed or int(leg.returncode != 0), skipped


if __name__ == "__main__":
    main()
