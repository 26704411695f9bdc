"""Talking to a shim that answers, refuses, or is not there."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim.request_listener import MESSAGE_MAX, RequestListener
from sokovan.adapters.process.shim_client import ShimSilent, connected, request_stop, send_request
from sokovan.ports.runtime import ProgramNotFound, RuntimeFailure


@contextmanager
def shim(folder: Path, answer: dict[str, object] | None) -> Iterator[list[dict[str, object]]]:
    """A server that takes one message and sends one answer, or disconnects."""
    heard: list[dict[str, object]] = []
    with opened(folder) as handle:
        listener = RequestListener(handle)

        def serve() -> None:
            os.set_blocking(listener.fileno(), True)
            number = listener.accept()
            assert number is not None
            caller = listener.callers[number]
            caller.line.setblocking(True)
            message, files = caller.receive()
            heard.append({**(message or {}), "files": len(files)})
            for file in files:
                os.close(file)
            if answer is not None:
                caller.answer(**answer)
            listener.close_connection(number)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield heard
        finally:
            thread.join(60)
            listener.close(handle)


def test_a_message_goes_out_with_its_files_and_the_answer_comes_back(tmp_path: Path) -> None:
    with shim(tmp_path, {"done": True}) as heard, connected(tmp_path) as line, opened(tmp_path) as file:
        assert send_request(line, {"do": "it"}, [file, file]) == {"done": True}
    assert heard == [{"do": "it", "files": 2}]


def test_a_missing_program_is_distinguished_from_other_refusals(tmp_path: Path) -> None:
    error: dict[str, object] = {"error": "[Errno 2] is not on PATH: 'x'"}
    with shim(tmp_path, error), connected(tmp_path) as line, pytest.raises(ProgramNotFound, match="'x'"):
        send_request(line, {})


def test_a_refusal_is_raised_with_its_message(tmp_path: Path) -> None:
    with shim(tmp_path, {"error": "no"}), connected(tmp_path) as line, pytest.raises(RuntimeFailure, match="no"):
        send_request(line, {})


def test_a_shim_that_disconnects_is_silent(tmp_path: Path) -> None:
    with shim(tmp_path, None), pytest.raises(ShimSilent):
        request_stop(tmp_path, 1.0)


def test_without_a_shim_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ShimSilent):
        connected(tmp_path)
    with pytest.raises(ShimSilent):
        connected(tmp_path / "none")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead, opened(tmp_path) as folder:
        dead.bind(f"/proc/self/fd/{folder}/control.sock")
    with pytest.raises(ShimSilent):
        connected(tmp_path)


def test_a_message_that_is_too_long_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far, pytest.raises(RuntimeFailure, match="a message has"):
        send_request(near, {"arguments": ["x" * MESSAGE_MAX]})
    assert list(tmp_path.iterdir()) == []
