"""A package index that keeps pip waiting for as long as a test wants, and then has nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PackageIndex:
    """Answers 404 to every request, once `answers` is set."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers = threading.Event()
        self.asked = threading.Event()

    @property
    def requirements(self) -> str:
        """Requirements that only this index could serve, and it has none of them."""
        return f"--index-url http://127.0.0.1:{self.port}/simple\nno-such-package-at-all\n"


@contextmanager
def package_index() -> Iterator[PackageIndex]:
    """An index of its own, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.set()
            index.answers.wait()
            with contextlib.suppress(OSError):  # it may have gone meanwhile
                self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index = PackageIndex(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield index
    finally:
        index.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
