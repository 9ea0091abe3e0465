"""A TCP proxy before a database server, to take the server away from one process alone."""

import socket
import threading
from contextlib import suppress


class Proxy:
    """Passes bytes on to a server until it is cut; then it hangs up and refuses, until mended.

    When it is stalled it hangs up nobody, and passes nothing on.
    """

    def __init__(self, host, port):
        self.target = (host, int(port))
        self.is_cut = False
        self.stalled_by = None
        # Those whose words were not passed on.
        self.waiting = set()
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def cut(self):
        """Hang up all connections, and every new one."""
        self.is_cut = True
        for pair in self.pairs:
            hang_up(*pair)

    def mend(self):
        """Serve new connections again."""
        self.is_cut = False

    def stall(self, word=b""):
        """Pass nothing on any more where a client sends this word, or anything."""
        self.stalled_by = word

    def close(self):
        """End for good."""
        self.cut()
        hang_up(self.listener)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_cut:
                hang_up(client)
                continue
            server = socket.create_connection(self.target)
            self.pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        """Pass bytes on until either side is gone, or keep them when stalled."""
        is_stalled = False
        with suppress(OSError):
            while data := source.recv(65536):
                is_stalled = is_stalled or (self.stalled_by is not None and self.stalled_by in data)
                if is_stalled:
                    self.waiting.add(source)
                else:
                    sink.sendall(data)
        hang_up(source, sink)


def hang_up(*sockets):
    """Close sockets so that whoever waits for one of them is woken."""
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
