"""Run the small shop's demonstration on SQLite, in an environment of its own."""

import sys

import bootstrap

bootstrap.enter("demo")
bootstrap.execute([sys.executable, bootstrap.ROOT / "testproject/manage.py", "demo", *sys.argv[1:]])
