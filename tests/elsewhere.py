"""What another process would do meanwhile: a thread with connections of its own."""

import threading

from django.db import connections

PATIENCE = 60


class Elsewhere:
    """A call that runs in a thread; `answer()` waits for what it returns, or raises its error."""

    def __init__(self, function, *args, **kwargs):
        self._call = (function, args, kwargs)
        self._result = self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, seconds):
        """Wait until the call has ended, at most so long."""
        self._thread.join(seconds)

    def answer(self):
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise AssertionError(f"{self._call[0]} still runs after {PATIENCE} s")
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self):
        function, args, kwargs = self._call
        try:
            self._result = function(*args, **kwargs)
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()


def elsewhere(function, *args, **kwargs):
    """Call the function on another connection; return what it returns, or raise its error."""
    return Elsewhere(function, *args, **kwargs).answer()
