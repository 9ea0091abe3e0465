"""Django's own runner, made strict, able to leave the machine to one test, and able to count."""

import shutil
import unittest

from django.core.management import call_command
from django.db import connections
from django.test.runner import DiscoverRunner, ParallelTestSuite, iter_test_cases


class CountingResult(unittest.TextTestResult):
    """Counts tests by outcome; `testsRun` leaves out skips on some versions of Python."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.passed_ids, self.failed_ids, self.skipped_ids = set(), set(), set()

    @property
    def counts(self):
        """Passed, failed and skipped; a test with several failures counts once."""
        passed = self.passed_ids - self.failed_ids
        return len(passed), len(self.failed_ids), len(self.skipped_ids - self.failed_ids)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed_ids.add(test.id())

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.passed_ids.add(test.id())

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed_ids.add(test.id())

    def addError(self, test, err):
        super().addError(test, err)
        self.failed_ids.add(test.id())

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.failed_ids.add(test.id())

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed_ids.add(test.id())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.skipped_ids.add(test.id())


class ThenAloneSuite(ParallelTestSuite):
    """Runs what is tagged "alone" in this process, after everything else has run in parallel."""

    def __init__(self, subsuites, *args, **kwargs):
        subsuites = list(subsuites)
        self.alone = [suite for suite in subsuites if is_alone(suite)]
        super().__init__([s for s in subsuites if s not in self.alone], *args, **kwargs)

    def __iter__(self):
        yield from self.subsuites
        yield from self.alone

    def run(self, result):
        if self.subsuites:
            # The copies of this process close what they inherit, and the server takes that as the
            # end of this process's own connection.
            connections.close_all()
            super().run(result)
        for suite in self.alone:
            if not result.shouldStop:
                suite.run(result)
        return result


class Runner(DiscoverRunner):
    """Fails on system-check warnings, clones SQLite files safely, and keeps `counts`."""

    parallel_test_suite = ThenAloneSuite
    counts = (0, 0, 0)

    def get_resultclass(self):
        return CountingResult

    def build_suite(self, *args, **kwargs):
        if self.parallel > 1 and not can_clone():
            self.log("One process only: cloning a MySQL test database needs mysqldump.")
            self.parallel = 1
        return super().build_suite(*args, **kwargs)

    def setup_databases(self, **kwargs):
        for connection in connections.all():
            if connection.vendor != "sqlite":
                connection.ensure_connection()  # so that a server out of reach is named as such
        # A SQLite file is cloned by copying it, which is right only once the connection is closed:
        # until then the newest pages are in its write-ahead log.
        parallel, self.parallel = self.parallel, 0
        created = super().setup_databases(**kwargs)
        self.parallel = parallel
        for connection, _, owned in created:
            if owned and parallel > 1:
                connection.close()
                for number in range(parallel):
                    connection.creation.clone_test_db(
                        suffix=str(number + 1), verbosity=self.verbosity, keepdb=self.keepdb
                    )
        return created

    def run_checks(self, databases):
        call_command("check", verbosity=self.verbosity, databases=databases, fail_level="WARNING")

    def suite_result(self, suite, result, **kwargs):
        self.counts = result.counts
        return self.counts[1]


def is_alone(suite):
    """Tell whether any test in the suite carries the tag, itself or by its class."""
    for test in iter_test_cases(suite):
        method = getattr(test, getattr(test, "_testMethodName", ""), None)
        if "alone" in {*getattr(test, "tags", ()), *getattr(method, "tags", ())}:
            return True
    return False


def can_clone():
    """Tell whether the databases of this run can be cloned on this machine."""
    vendors = {connection.vendor for connection in connections.all()}
    return "mysql" not in vendors or shutil.which("mysqldump") is not None
