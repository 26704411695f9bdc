"""A server of sockets that speaks as the API does when a command runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from threading import Thread

from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from sokovan.sdk.endpoint import ServerEndpoint

PROBLEM = {"type": "", "title": "", "status": 409, "detail": "kernel 0 is pending", "code": "conflict", "hint": "wait"}


class ToySocket:
    """Echoes input in capitals and ends with the code that the command names."""

    def __init__(self) -> None:
        self.opened: list[dict[str, object]] = []
        self.resized: list[object] = []
        self.paths: list[str] = []

    def converse(self, socket: ServerConnection) -> None:
        """One command."""
        request = json.loads(socket.recv())
        self.opened.append(request)
        word = request["command"][0]
        if word == "vanish":
            return
        if word == "refuse":
            socket.send(json.dumps(PROBLEM))
            return
        for frame in socket:
            if isinstance(frame, str):
                self.resized.append(json.loads(frame)["resize"])
            elif frame:
                socket.send(frame.upper())
            else:
                break
        socket.send(json.dumps({"exit_code": int(word)}))

    def answer(self, _socket: ServerConnection, request: Request) -> Response | None:
        """Refuse at the door whoever has no key."""
        self.paths.append(request.path)
        if request.headers.get("Authorization") == "Bearer good":
            return None
        headers = Headers({"Content-Type": "application/problem+json"})
        problem = json.dumps({**PROBLEM, "status": 401, "code": "unauthenticated"}).encode()
        return Response(HTTPStatus.UNAUTHORIZED, "Unauthorized", headers, problem)


@contextmanager
def toy_socket(token: str = "good") -> Iterator[tuple[ToySocket, ServerEndpoint]]:  # noqa: S107  # not a password of anybody
    """The server, and where it is."""
    toy = ToySocket()
    with serve(toy.converse, "127.0.0.1", 0, process_request=toy.answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield toy, ServerEndpoint(f"http://127.0.0.1:{server.socket.getsockname()[1]}", token)
        finally:
            server.shutdown()
            thread.join()
