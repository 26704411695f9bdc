"""A server of canned answers on a real socket, for commands that open their own client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgspec

# Runs a command line; gives its exit status, standard output and standard error.
Sokovan = Callable[..., tuple[int, str, str]]
CALLER = {"user": "kim", "role": "user", "domain": "default", "groups": [], "access_key": "AK"}
JSON, PROBLEM, STREAM = "application/json", "application/problem+json", "text/event-stream"


@dataclass
class CannedServer:
    """Answers by METHOD PATH, without the query; the last answer of several is given again and again."""

    url: str = ""
    answers: dict[str, list[tuple[int, str, bytes]]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def says(self, line: str, *bodies: object, status: int = 200) -> None:
        """Set the responses to a request such as `GET sessions/a`."""
        self.answers[line] = [(status, JSON, b"" if status == 204 else msgspec.json.encode(body)) for body in bodies]

    def streams(self, line: str, *events: tuple[str, object], later: bool = False) -> None:
        """Which events to stream; or which when it is opened again, and later still."""
        text = b"".join(b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(one)) for name, one in events)
        self.answers[line] = [*(self.answers[line] if later else ()), (200, STREAM, text)]

    def refuses(self, line: str, status: int, code: str, **more: Any) -> None:
        """Respond with a problem."""
        body = {"type": "", "title": "T", "status": status, "detail": f"about {code}", "code": code, "hint": "fix it"}
        self.answers[line] = [(status, PROBLEM, msgspec.json.encode({**body, **more}))]

    @property
    def lines(self) -> list[str]:
        """The requests, without the path prefix."""
        return [line for line, _ in self.asked]

    def body(self, line: str) -> Any:
        """The body of a request."""
        return next(body for asked, body in self.asked if asked == line)

    def answer(self, method: str, target: str, content: bytes) -> tuple[int, str, bytes]:
        """The answer to a request."""
        path = target.removeprefix("/api/v1/")
        self.asked.append((f"{method} {path}", _decoded(content)))
        found = self.answers.get(f"{method} {path.partition('?')[0]}")
        if found is None and path == "whoami":  # a caller whose machine is another one
            self.asked.pop()
            return 200, JSON, msgspec.json.encode(CALLER)
        if found is None:
            self.refuses(f"{method} {path}", 404, "not-found", detail=f"there is no {path}")
            found = self.answers.pop(f"{method} {path}")
        return found.pop(0) if len(found) > 1 else found[0]


def _decoded(content: bytes) -> Any:
    """The body of a request; content that is not JSON stays as it is."""
    try:
        return msgspec.json.decode(content) if content else None
    except msgspec.MsgspecError:
        return content


@contextmanager
def canned_server() -> Iterator[CannedServer]:
    """A server that is there for as long as the context is."""
    canned = CannedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, kind, body = canned.answer(self.command, self.path, content)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815  # the names that http.server wants

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    class ServerOptions(ThreadingHTTPServer):
        def handle_error(self, *_about: object) -> None:
            """A client that has enough of a stream hangs up, and that is no error."""

    with ServerOptions(("127.0.0.1", 0), Handler) as server:
        canned.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield canned
        finally:
            server.shutdown()
            thread.join()
