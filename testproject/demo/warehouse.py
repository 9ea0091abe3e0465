"""A warehouse that the shop announces orders to, and that fails until it is repaired.

Which calls fail depends on the order's number alone, so that every run goes the same way.
"""

import json
import threading
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LARGEST_BODY = 10_000


class Warehouse:
    """Before `repair()`, of four orders one always fails and one fails at its first call."""

    def __init__(self, port: int = 0) -> None:
        self.calls: Counter[HTTPStatus] = Counter()
        self.known: set[int] = set()
        self._tried: set[int] = set()
        self._repaired = False
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
        self._server.daemon_threads = True
        self._server.warehouse = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "Warehouse":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/orders/"

    def repair(self) -> None:
        """Let every call from now on succeed."""
        self._repaired = True

    def announce(self, order: int) -> HTTPStatus:
        """Take an order, or not. Taking it twice is taking it once."""
        with self._lock:
            first = order not in self._tried
            self._tried.add(order)
            fails = not self._repaired and (order % 4 == 0 or (order % 4 == 2 and first))
            status = HTTPStatus.SERVICE_UNAVAILABLE if fails else HTTPStatus.OK
            self.calls[status] += 1
            if not fails:
                self.known.add(order)
        return status


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= LARGEST_BODY:
                raise ValueError
            order = json.loads(self.rfile.read(length))["order"]
            if type(order) is not int:
                raise ValueError
        except (ValueError, TypeError, KeyError):
            return self._answer(HTTPStatus.BAD_REQUEST)
        return self._answer(self.server.warehouse.announce(order))  # type: ignore[attr-defined]

    def _answer(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing; the demonstration has its own words."""
