"""A command inside a running kernel, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from sokovan.sdk.core import exec_frames, session_calls
from sokovan.sdk.core.exec_frames import Finished, Terminal
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.websockets import connecting, lost, socket_options
from sokovan.wire.api.execution import frames_of


class Execution:
    """The command: iterate over its output, send it input, then ask for its exit code.

    Input may be sent from another thread than the one that reads.
    """

    def __init__(
        self,
        endpoint: ServerEndpoint,
        ref: str,
        command: Sequence[str],
        *,
        kernel: int = 0,
        terminal: Terminal | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._exit_code: int | None = None
        self._open = ExitStack()
        address = endpoint.socket_url + session_calls.execution(ref, kernel)
        with connecting(endpoint):
            self._socket = self._open.enter_context(connect(address, **socket_options(endpoint)))
        self._send(exec_frames.opening(command, terminal))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """The output, until the command ends."""
        while self._exit_code is None:
            try:
                told = exec_frames.read(self._socket.recv())
            except ConnectionClosed as error:
                raise lost(self._endpoint, error) from error
            if isinstance(told, Finished):
                self._exit_code = told.exit_code
            elif told:
                yield told

    @property
    def exit_code(self) -> int:
        """How the command ended; what output is left is read over."""
        for _ in self:
            continue
        return -1 if self._exit_code is None else self._exit_code

    def write(self, content: bytes) -> None:
        """Send input."""
        for frame in frames_of(content):
            self._send(frame)

    def end_input(self) -> None:
        """Tell the command that no more input comes."""
        self._send(exec_frames.END_OF_INPUT)

    def resize(self, terminal: Terminal) -> None:
        """Tell the command that the terminal has another size."""
        self._send(exec_frames.resized(terminal))

    def close(self) -> None:
        """Let go; a command that still runs is ended by the server."""
        self._open.close()

    def _send(self, frame: bytes | str) -> None:
        try:
            self._socket.send(frame)
        except ConnectionClosed as error:
            if self._exit_code is None:
                raise lost(self._endpoint, error) from error
