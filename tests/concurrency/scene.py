"""How a handler tells its test what it did, and waits until its test lets it go on."""

import os
import time
from pathlib import Path

# Longer than any test waits: a handler that is forgotten ends with its worker.
PATIENCE = 120.0


def path(name):
    """Return the file of this name in the scene of the test."""
    return Path(os.environ["NOBROKER_TEST_SCENE"]) / name


def mark(name, word="."):
    """Leave a mark: one line in the file, whole even beside those of other processes."""
    descriptor = os.open(path(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{word}\n".encode())
    finally:
        os.close(descriptor)


def wait(name):
    """Wait for a file of the test."""
    until = time.monotonic() + PATIENCE
    while not path(name).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{name} never came.")
        time.sleep(0.01)
