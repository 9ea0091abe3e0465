"""Settings of the suite and of the workers that it starts; `runtests.py` says what may be chosen.

NOBROKER_TEST_DATABASE  sqlite (the default), postgresql or mysql
NOBROKER_TEST_RUN       a word of this run's own, so that two runs on one server do not meet
NOBROKER_TEST_DIR       where this run keeps its SQLite files
NOBROKER_TEST_DBNAME    for a process that a test starts: the database that the test is using
"""

import os
import tempfile
from pathlib import Path

import django

env = os.environ.get


def sqlite():
    directory = Path(env("NOBROKER_TEST_DIR") or tempfile.gettempdir())
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
        # A file, because the workers that tests start cannot see another process's memory.
        "TEST": {"NAME": str(directory / "nobroker_tests.sqlite3")},
    }


def postgresql():
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "HOST": env("POSTGRES_HOST", "127.0.0.1"),
        "PORT": env("POSTGRES_PORT", "5432"),
        "USER": env("POSTGRES_USER", "postgres"),
        "PASSWORD": env("POSTGRES_PASSWORD", ""),
        "TEST": {"NAME": test_name()},
    }


def mysql():
    return {
        "ENGINE": "django.db.backends.mysql",
        # Always there, readable by all and writable by none; only the test database is written.
        "NAME": "information_schema",
        "HOST": env("MYSQL_HOST", "127.0.0.1"),
        "PORT": env("MYSQL_PORT", "3306"),
        "USER": env("MYSQL_USER", "root"),
        "PASSWORD": env("MYSQL_PASSWORD", ""),
        "OPTIONS": {"charset": "utf8mb4"},
        "TEST": {"NAME": test_name(), "CHARSET": "utf8mb4"},
    }


def test_name():
    return "_".join(filter(None, ("test_nobroker", env("NOBROKER_TEST_RUN"))))


DATABASE = {"sqlite": sqlite, "postgresql": postgresql, "mysql": mysql}[
    env("NOBROKER_TEST_DATABASE") or "sqlite"
]()
DATABASE["NAME"] = env("NOBROKER_TEST_DBNAME") or DATABASE["NAME"]
DATABASES = {"default": DATABASE}

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django_nobroker",
    "testproject.shop",
    "tests",
]

if django.VERSION >= (6, 0):
    TASKS = {"default": {"BACKEND": "django_nobroker.backend.NobrokerBackend", "QUEUES": []}}

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
SECRET_KEY = "for the tests only"
USE_TZ = True
