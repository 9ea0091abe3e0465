"""A real worker in a second process, as `manage.py nobroker_work` starts it anywhere."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings

PATIENCE = 15.0


class WorkerProcess:
    """Runs from entry to exit of the context. What it says goes to `log`."""

    def __init__(self, log: Path, **variables: str) -> None:
        self.log = log
        self._variables = variables

    def __enter__(self) -> "WorkerProcess":
        command = [sys.executable, *(f"-W{option}" for option in sys.warnoptions)]
        command += [str(settings.BASE_DIR / "manage.py"), "nobroker_work", "--concurrency", "4"]
        # Should this process be killed, the worker has no one to stop it; it then ends by itself.
        command += ["--idle-timeout", "30"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self._variables,
                # Ctrl-C is for the demonstration, which then stops its worker.
                start_new_session=True,
            )
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> int:
        """Ask it to finish what it has begun, and return its exit code."""
        if self.running:
            self._process.terminate()
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return self._process.returncode
        finally:
            if self.running:
                self._process.kill()
                self._process.wait()

    def last_words(self) -> str:
        """Return the end of what it said."""
        return self.log.read_text(errors="replace")[-3000:].strip() or "(nothing)"
