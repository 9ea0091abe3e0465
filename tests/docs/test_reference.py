"""The reference names what exists, all of it, and nothing else."""

import ast
import inspect
import re
from pathlib import Path

from django.test import SimpleTestCase

import django_nobroker
from django_nobroker import (
    BackoffPolicy,
    CompactionResult,
    Job,
    Queue,
    QueueStats,
    Worker,
    WorkerStats,
    backend,
    conf,
    exceptions,
    outcomes,
    policy,
    testing,
)
from django_nobroker.testing import JobAssertions

from .pages import page, pages

PACKAGE = Path(django_nobroker.__file__).parent
CALL = re.compile(r"`(\w+)\((.*)\)(?: -> [^`]+)?`")


def public(cls):
    """Return the names of a class and of its bases in the package."""
    found = [vars(base) for base in cls.__mro__ if base.__module__.startswith("django_nobroker")]
    return {name for names in found for name in names if not name.startswith("_")}


def errors_in(module):
    return {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }


def signatures(name):
    """Return the calls in the headings of a page, as {name: parameters}."""
    return {m[1]: m[2] for h in page(name).headings for m in CALL.finditer(h)}


def parameters_of(function):
    """Return the parameters of a function as they are written, without annotations."""
    found = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name != "self"]
    text = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))[1:-1]
    return re.sub(r"<class '(\w+)'>", r"\1", text)


def written(parameters):
    """Return parameters in one way of writing, so that only what they say is compared."""
    return ast.unparse(ast.parse(f"lambda {parameters}: 0"))


class SignatureTests(SimpleTestCase):
    def compare(self, name, functions):
        found = signatures(name)
        self.assertEqual(set(found), set(functions))
        for key, function in functions.items():
            with self.subTest(page=name, call=key):
                self.assertEqual(written(found[key]), written(parameters_of(function)))

    def test_queue(self):
        twins = {"aenqueue", "aenqueue_many"}
        functions = {n: getattr(Queue, n) for n in public(Queue) - twins - PROPERTIES}
        self.compare("docs/reference/queue.md", {"Queue": Queue, **functions})
        text = page("docs/reference/queue.md").text
        for name in twins | PROPERTIES:
            self.assertIn(f"`{name}", text)

    def test_worker(self):
        functions = {"Worker": Worker, "run": Worker.run, "stop": Worker.stop}
        self.compare("docs/reference/worker.md", functions)

    def test_policy(self):
        functions = {"policy": policy, "BackoffPolicy": BackoffPolicy}
        functions |= {name: getattr(outcomes, name) for name in ("Reject", "Snooze", "Retry")}
        self.compare("docs/reference/policy.md", functions)

    def test_backend(self):
        names = ("enqueue", "enqueue_many", "aenqueue_many", "get_result")
        functions = {name: getattr(backend.NobrokerBackend, name) for name in names}
        self.compare("docs/reference/backend.md", functions)
        self.assertLessEqual(
            set(backend.OPTIONS), set(page("docs/reference/backend.md").first_cells)
        )

    def test_testing(self):
        functions = {name: getattr(testing, name) for name in ("run_due", "enqueued")}
        functions |= {name: getattr(JobAssertions, name) for name in public(JobAssertions)}
        self.compare("docs/reference/testing.md", functions)
        for name in testing.__all__:
            self.assertIn(f"`{name}", page("docs/reference/testing.md").text)


PROPERTIES = {name for name in public(Queue) if isinstance(getattr(Queue, name), property)}


class NameTests(SimpleTestCase):
    def test_every_public_name_is_in_the_reference(self):
        text = "".join(one.text for one in pages() if "reference" in one.name)
        for name in django_nobroker.__all__:
            self.assertIn(f"`{name}", text)

    def test_results(self):
        for cls, name in {
            QueueStats: "docs/reference/queue.md",
            CompactionResult: "docs/reference/queue.md",
            WorkerStats: "docs/reference/worker.md",
        }.items():
            self.assertIn(f"`{cls.__name__}({', '.join(cls._fields)})`", page(name).text)

    def test_job_fields(self):
        columns = {field.attname for field in Job._meta.concrete_fields} - {"payload_text"}
        extras = {"payload", "payload_text", "created", "lease_lost", "failed_attempts"}
        self.assertEqual(set(page("docs/reference/job.md").first_cells), columns | extras)

    def test_errors(self):
        described = set(page("docs/reference/errors.md").first_cells)
        self.assertEqual(described, errors_in(exceptions))

    def test_settings(self):
        cells = set(page("docs/reference/settings.md").first_cells)
        self.assertEqual(cells, {*conf._OPTIONS, "DATABASE", "NOTIFY", "QUEUES"})

    def test_checks(self):
        source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
        existing = set(re.findall(r"nobroker\.[EW]\d{3}", source))
        self.assertEqual(set(page("docs/reference/checks.md").first_cells), existing)
        for one in pages():
            self.assertLessEqual(set(re.findall(r"nobroker\.[EW]\d{3}", one.text)), existing, one)


class SettingsTests(SimpleTestCase):
    def test_every_default_is_right(self):
        text = page("docs/reference/settings.md").prose
        defaults = conf.QueueOptions()
        for key, (name, _) in conf._OPTIONS.items():
            [row] = [line for line in text.split("\n") if line.startswith(f"| `{key}`")]
            default = getattr(defaults, name) if name else None
            if name != "backoff":
                shown = row.split("|")[2].strip().strip("`")
                self.assertEqual(ast.literal_eval(shown), default, key)
