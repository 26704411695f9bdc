"""A WebSocket server that behaves as the API does for a command."""

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


class FakeWebSocket:
    """Echoes input in capitals and exits with the code that the command names."""

    def __init__(self) -> None:
        self.opened: list[dict[str, object]] = []
        self.resized: list[object] = []
        self.paths: list[str] = []

    def converse(self, socket: ServerConnection) -> None:
        """Serve one command."""
        request = json.loads(socket.recv())
        self.opened.append(request)
        command = request["command"][0]
        if command == "vanish":
            return
        if command == "refuse":
            socket.send(json.dumps(PROBLEM))
            return
        for frame in socket:
            if isinstance(frame, str):
                self.resized.append(json.loads(frame)["resize"])
            elif frame:
                socket.send(frame.upper())
            else:
                break
        socket.send(json.dumps({"exit_code": int(command)}))

    def respond(self, _socket: ServerConnection, request: Request) -> Response | None:
        """Refuse the handshake without a valid key."""
        self.paths.append(request.path)
        if request.headers.get("Authorization") == "Bearer good":
            return None
        headers = Headers({"Content-Type": "application/problem+json"})
        problem = json.dumps({**PROBLEM, "status": 401, "code": "unauthenticated"}).encode()
        return Response(HTTPStatus.UNAUTHORIZED, "Unauthorized", headers, problem)


@contextmanager
def fake_websocket(token: str = "good") -> Iterator[tuple[FakeWebSocket, ServerEndpoint]]:  # noqa: S107  # a fake token
    """The server and its endpoint."""
    fake = FakeWebSocket()
    with serve(fake.converse, "127.0.0.1", 0, process_request=fake.respond) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield fake, ServerEndpoint(f"http://127.0.0.1:{server.socket.getsockname()[1]}", token)
        finally:
            server.shutdown()
            thread.join()
