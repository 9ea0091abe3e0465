"""Make a virtual environment for one of this repository's programs, and run the program in it.

Needs the standard library only. An environment belongs to one Python, one Django and one kind of
work; it is made once, and again only when what it is made from has changed.

    python bootstrap.py lint ruff check
    python bootstrap.py --django 5.2 --extra postgresql tests python -m django shell
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - older ones must be told, not shown a traceback
    sys.exit(f"django-nobroker needs Python 3.11 or newer; this is {sys.version.split()[0]}.")

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
DJANGOS = ("5.2", "6.0", "6.1")

# kind: the extras that it always has, and a requirements file of its own.
KINDS = {
    "demo": ((), "testproject/requirements.txt"),
    "lint": (("postgresql",), None),
    "tests": ((), None),
}


def enter(kind, *, django=None, extras=()):
    """Return at once if inside the environment asked for; else start this program anew in it."""
    path, renewed = prepare(kind, django=django, extras=extras)
    if renewed or Path(sys.prefix).resolve() != path:
        execute([_program(path, "python"), *sys.orig_argv[1:]])


def execute(command, **variables):
    """Replace this process by the command."""
    sys.stdout.flush()
    sys.stderr.flush()
    environment = os.environ | variables
    if os.name == "nt":  # exec there returns to the shell before the program has ended
        sys.exit(subprocess.call(command, env=environment))
    os.execvpe(command[0], [str(word) for word in command], environment)


def prepare(kind, *, django=None, extras=()):
    """Return the environment's path, and whether it had to be made or renewed."""
    django = django or default_django()
    if django != "5.2" and sys.version_info < (3, 12):
        sys.exit(f"Django {django} needs Python 3.12 or newer; this is {sys.version.split()[0]}.")
    name = "py{}{}-django{}-{}".format(*sys.version_info[:2], django.replace(".", ""), kind)
    path = ROOT / ".venvs" / name
    wanted = {*KINDS[kind][0], *extras}
    path.parent.mkdir(exist_ok=True)
    with _alone(path.with_suffix(".lock")):
        key, stamp = _key(kind), path / "stamp.json"
        try:
            made = json.loads(stamp.read_text())
        except (OSError, ValueError):
            made = {}
        current = made.get("key") == key and _program(path, "python").exists()
        present = set(made.get("extras", ())) if current else set()
        if current and wanted <= present:
            return path, False
        doing = f"Adding {', '.join(sorted(wanted - present))} to" if current else "Setting up"
        print(f"{doing} .venvs/{name} (first run only)…", file=sys.stderr, flush=True)
        stamp.unlink(missing_ok=True)
        if not current:
            _create(path)
        _install(path, kind, django, wanted | present)
        stamp.write_text(json.dumps({"key": key, "extras": sorted(wanted | present)}))
    return path, True


def default_django():
    """The newest Django that this Python can run."""
    return "5.2" if sys.version_info < (3, 12) else DJANGOS[-1]


def _key(kind):
    """A hash of everything that an environment is made from."""
    project = _project()
    parts = [project["build-system"], project["project"], _group(kind)]
    requirements = KINDS[kind][1]
    if requirements:
        parts.append((ROOT / requirements).read_text())
    parts += [str(ROOT), sys.base_prefix, sys.version]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _group(kind):
    return _project()["dependency-groups"].get(kind, [])


def _create(path):
    missing = [name for name in ("venv", "ensurepip") if not importlib.util.find_spec(name)]
    if missing:
        package = "python{}.{}-venv".format(*sys.version_info[:2])
        sys.exit(
            f"{sys.executable} lacks the module {missing[0]}, without which no virtual environment "
            f"can be made.\nOn Debian and Ubuntu: apt install {package}"
        )
    # From inside another environment, the Python that it was made from.
    python = getattr(sys, "_base_executable", None) or sys.executable
    _run([python, "-m", "venv", "--clear", path], f"{path.name} could not be made")


def _install(path, kind, django, extras):
    target = f"{ROOT}[{','.join(sorted(extras))}]" if extras else str(ROOT)
    quietly = ("--quiet", "--no-input", "--disable-pip-version-check")
    command = [_program(path, "python"), "-m", "pip", "install", *quietly]
    command += [f"Django~={django}.0", *_group(kind), "--editable", target]
    requirements = KINDS[kind][1]
    if requirements:
        command += ["--requirement", ROOT / requirements]
    advice = ""
    if "mysql" in extras:
        advice = (
            "\nIf it was mysqlclient that could not be built, it lacks a compiler or the client "
            "library.\nOn Debian and Ubuntu: apt install libmariadb-dev pkg-config gcc python3-dev"
        )
    _run(command, f"The packages for {path.name} could not be installed", advice)


def _run(command, failure, advice=""):
    """Run quietly; on failure show all that was said, and end."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(f"{done.stdout.decode(errors='replace')}\n{failure}.{advice}")


def _program(path, name):
    return path / "Scripts" / f"{name}.exe" if os.name == "nt" else path / "bin" / name


@contextlib.contextmanager
def _alone(path):
    """Let two programs that want one environment make it one after the other."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main():
    """Run a command in an environment; without one, only make it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--django", choices=DJANGOS)
    parser.add_argument("--extra", action="append", default=[], help="postgresql or mysql")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    path, _ = prepare(options.kind, django=options.django, extras=options.extra)
    if options.command:
        program, *arguments = options.command
        execute(
            [program, *arguments],
            VIRTUAL_ENV=str(path),
            PATH=f"{_program(path, 'python').parent}{os.pathsep}{os.environ.get('PATH', '')}",
        )


if __name__ == "__main__":
    main()
