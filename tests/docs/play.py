"""Runs the Python of one page from top to bottom, as its reader would.

`python` blocks are executed, `pycon` blocks are compared with what they print. A block that is the
content of a file becomes a module that later blocks can import; one that is settings.py takes
effect for the rest of the page. A block marked `tasks` needs Django's task framework, and is left
out where there is none.
"""

import contextlib
import copy
import doctest
import logging
import sys
import types

import django
from django.conf import settings
from django.core.checks import run_checks
from django.test import override_settings

from django_nobroker.tasks import SUPPORTED

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Marks of a Python block that is shown, but stands for something that cannot run here.
SHOWN_ONLY = "not-run"
# Mark of one that runs only where Django has `django.tasks`.
NEEDS_TASKS = "tasks"


class Play(contextlib.ExitStack):
    """A page being run; what it changed is undone at the end."""

    def __init__(self, page, case):
        super().__init__()
        self.page = page
        self.case = case
        self.main = {"__name__": "__main__"}
        self.modules = {}
        self.callback(self._forget_modules)
        self._hush(logging.getLogger("django_nobroker"))
        if django.VERSION >= (6, 1):
            backend = {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}
            self.enter_context(override_settings(MAILERS={"default": backend}))

    def run(self):
        """Run every block of the page."""
        for block in self.page.of("python", "pycon"):
            if SHOWN_ONLY in block.marks or (NEEDS_TASKS in block.marks and not SUPPORTED):
                continue
            if block.language == "pycon":
                self._compare(block)
            elif block.file and block.file.split(".")[-1] == "settings":
                self._set(block)
            else:
                self._execute(block, self._namespace(block))
        return self

    def _hush(self, logger):
        """Keep what the pages let fail from being printed."""
        handler = logging.NullHandler()
        logger.addHandler(handler)
        self.callback(logger.removeHandler, handler)

    def _execute(self, block, namespace):
        # Padded, so that a traceback names the line of the page.
        source = "\n" * (block.line - 1) + block.text
        exec(compile(source, self.page.path, "exec"), namespace)

    def _set(self, block):
        # Copies: only NOBROKER and TASKS are to take effect.
        names = ("INSTALLED_APPS", "DATABASES")
        namespace = {name: copy.deepcopy(getattr(settings, name)) for name in names}
        namespace["BASE_DIR"] = self.page.path.parent
        self._execute(block, namespace)
        chosen = {name: namespace[name] for name in ("NOBROKER", "TASKS") if name in namespace}
        if chosen:
            self.enter_context(override_settings(**chosen))
            self.case.assertEqual(run_checks(), [], self.page)

    def _compare(self, block):
        name = f"{self.page.name}, line {block.line}"
        test = doctest.DocTestParser().get_doctest(block.text, {}, name, self.page.name, block.line)
        test.globs = self.main
        said = []
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        runner.run(test, out=said.append, clear_globs=False)
        self.case.assertEqual(runner.failures, 0, "".join(said))

    def _namespace(self, block):
        if not block.file:
            return self.main
        package, _, _ = block.file.rpartition(".")
        if package and package not in self.modules:
            self._add(package).__path__ = []
        module = self.modules.get(block.file) or self._add(block.file)
        module.__package__ = package
        return module.__dict__

    def _add(self, name):
        module = types.ModuleType(name)
        if name in sys.modules:
            raise AssertionError(f"{self.page}: {name} is a real module; choose another name.")
        sys.modules[name] = self.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(self.modules[parent], last, module)
        return module

    def _forget_modules(self):
        for name in self.modules:
            sys.modules.pop(name, None)
