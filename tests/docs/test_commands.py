"""Command lines in the pages parse, and the reference names every command, option and exit code."""

import pkgutil
import re
import shlex
import sys
from unittest import mock

from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from django.test import SimpleTestCase

from django_nobroker.management import commands, database
from django_nobroker.management.commands import nobroker_check, nobroker_work

from .pages import page, pages

REFERENCE = "docs/reference/commands.md"
MANAGE = re.compile(r"manage\.py (nobroker_\w+)(.*)")
RUNTESTS = re.compile(r"python3 runtests\.py(.*)")


def command_names():
    return [module.name for module in pkgutil.iter_modules(commands.__path__)]


def parser_of(name):
    return load_command_class("django_nobroker", name).create_parser("manage.py", name)


def own_actions(parser):
    """Return what a command adds to the options that every command of Django has."""
    usual = BaseCommand().create_parser("manage.py", "none")._option_string_actions
    return [a for a in parser._actions if not set(a.option_strings) & set(usual)]


def lines():
    """Return every line of code that calls a program, with the page it stands on."""
    for one in pages():
        for block in one.of("console", "ini"):
            for line in block.text.replace("\\\n", " ").split("\n"):
                yield one, line


class CommandLineTests(SimpleTestCase):
    def test_every_command_line_parses(self):
        found = 0
        for one, line in lines():
            if match := MANAGE.search(line):
                found += 1
                with self.subTest(page=one, line=line):
                    self.parse(match[1], match[2])
        self.assertGreater(found, 5)

    def parse(self, name, rest):
        self.assertIn(name, command_names())
        parser = parser_of(name)
        parser.called_from_command_line = False
        parser.parse_args(shlex.split(rest.split(" | ")[0], comments=True))

    def test_every_line_that_runs_the_tests_parses(self):
        import runtests

        found = 0
        for one, line in lines():
            if match := RUNTESTS.search(line):
                found += 1
                argv = ["runtests.py", *shlex.split(match[1], comments=True)]
                with self.subTest(page=one, line=line), mock.patch.object(sys, "argv", argv):
                    runtests.parse()
        self.assertGreater(found, 0)


class ReferenceTests(SimpleTestCase):
    def test_every_command_has_a_section_and_every_section_a_command(self):
        headings = [h.strip("`") for h in page(REFERENCE).headings if h.startswith("`")]
        self.assertCountEqual(headings, command_names())

    def test_every_option_is_described_and_exists(self):
        for name in command_names():
            described = self.described_options(name)
            existing = {
                option
                for action in own_actions(parser_of(name))
                for option in action.option_strings
            }
            self.assertEqual(described, existing, name)

    def described_options(self, name):
        section = page(REFERENCE).section(f"`{name}`")
        rows = [line for line in section.split("\n") if line.startswith("| `-")]
        return {word for row in rows for word in re.findall(r"`(--?[a-z-]+)", row.split("|")[1])}

    def test_every_default_is_right(self):
        section = page(REFERENCE).section("`nobroker_work`")
        for action in own_actions(parser_of("nobroker_work")):
            if not action.option_strings or action.default in (None, "", False):
                continue
            [row] = [r for r in section.split("\n") if f"`{action.option_strings[-1]}" in r]
            self.assertIn(f"`{action.default}`", row.split("|")[2])

    def test_every_exit_code_is_described_and_exists(self):
        for heading, command in (
            ("Exit codes", nobroker_work),
            ("`nobroker_check`", nobroker_check),
        ):
            section = page(REFERENCE).section(heading)
            first_cells = " ".join(re.findall(r"^\| (`\d.*?) \|", section, re.MULTILINE))
            described = set(map(int, re.findall(r"`(\d+)`", first_cells)))
            codes = {
                value
                for module in (command, database)
                for name, value in vars(module).items()
                if name.isupper() and isinstance(value, int) and name != "FORMAT_VERSION"
            }
            # 0: as asked; 1: Python's own, for an error that nobody expected.
            self.assertEqual(described, {0, 1, *codes}, heading)
