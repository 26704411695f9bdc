"""A command inside a running kernel, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from sokovan.sdk.core import exec_frames, session_calls
from sokovan.sdk.core.exec_frames import Finished, Terminal
from sokovan.sdk.endpoint import Endpoint
from sokovan.sdk.errors import ClientProblem, Unreachable
from sokovan.sdk.upgrades import refusal


class Execution:
    """The command: iterate over its output, send it input, then ask for its exit code.

    Input may be sent from another thread than the one that reads.
    """

    def __init__(
        self, endpoint: Endpoint, ref: str, command: Sequence[str], *, kernel: int = 0, terminal: Terminal | None = None
    ) -> None:
        self._endpoint = endpoint
        self._exit_code: int | None = None
        self._open = ExitStack()
        try:
            opening = connect(
                endpoint.socket_url + session_calls.execution(ref, kernel),
                additional_headers=endpoint.headers(),
                user_agent_header=None,
                open_timeout=endpoint.connect_s,
                close_timeout=1.0,
                max_size=exec_frames.FRAME_MAX * 2,
                proxy=None,
            )
            self._socket = self._open.enter_context(opening)
        except InvalidStatus as error:
            raise refusal(error) from error
        except (OSError, InvalidHandshake) as error:
            raise _lost(endpoint, error) from error
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
                raise _lost(self._endpoint, error) from error
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
        for start in range(0, len(content), exec_frames.FRAME_MAX):
            self._send(content[start : start + exec_frames.FRAME_MAX])

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
                raise _lost(self._endpoint, error) from error


def _lost(endpoint: Endpoint, error: Exception) -> ClientProblem:
    return Unreachable(f"the connection to {endpoint.url} is lost: {error}")
