# Generated from sdk/aio/execution.py by `make docs`; do not edit.
"""A command that runs in a kernel, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from sokovan.sdk.core import exec_frames, session_calls
from sokovan.sdk.core.exec_frames import Finished, Terminal
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.websockets import connecting, connection_lost, socket_options
from sokovan.wire.api.execution import frames_of


class Execution:
    """One command: iterate over its output, write its input, then read its exit code.

    Input may be written from another thread than the one that reads output.
    """

    def __init__(self, endpoint: ServerEndpoint, socket: ClientConnection, resources: ExitStack) -> None:
        self._endpoint, self._socket, self._resources = endpoint, socket, resources
        self._exit_code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the output until the command ends."""
        while self._exit_code is None:
            try:
                frame = exec_frames.read(self._socket.recv())
            except ConnectionClosed as error:
                raise connection_lost(self._endpoint, error) from error
            if isinstance(frame, Finished):
                self._exit_code = frame.exit_code
            elif frame:
                yield frame

    @property
    def exit_code(self) -> int:
        """Exit code of the command; discards the rest of its output."""
        for _ in self:
            continue
        return -1 if self._exit_code is None else self._exit_code

    def write(self, content: bytes) -> None:
        """Write to its standard input."""
        for frame in frames_of(content):
            self.send_frame(frame)

    def end_input(self) -> None:
        """Close its standard input."""
        self.send_frame(exec_frames.END_OF_INPUT)

    def resize(self, terminal: Terminal) -> None:
        """Resize its terminal."""
        self.send_frame(exec_frames.resized(terminal))

    def close(self) -> None:
        """Close the connection; the server ends a command that still runs."""
        self._resources.close()

    def send_frame(self, frame: bytes | str) -> None:
        """Send one frame unchanged."""
        try:
            self._socket.send(frame)
        except ConnectionClosed as error:
            if self._exit_code is None:
                raise connection_lost(self._endpoint, error) from error


def connect_port(endpoint: ServerEndpoint, ref: str, port: str, *, kernel: int = 0) -> Execution:
    """Connect to a port of a kernel."""
    return _opened(endpoint, session_calls.port(ref, kernel, port))


def execute(
    endpoint: ServerEndpoint, ref: str, command: Sequence[str], *, kernel: int = 0, terminal: Terminal | None = None
) -> Execution:
    """Start a command in a kernel."""
    execution = _opened(endpoint, session_calls.execution(ref, kernel))
    execution.send_frame(exec_frames.opening(command, terminal))
    return execution


def _opened(endpoint: ServerEndpoint, path: str) -> Execution:
    resources = ExitStack()
    with connecting(endpoint):
        socket = resources.enter_context(connect(endpoint.socket_url + path, **socket_options(endpoint)))
    return Execution(endpoint, socket, resources)
