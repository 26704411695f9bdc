"""Requests come as messages with open files, however deep the folder lies."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.adapters.process.shim import request_listener as module
from sokovan.adapters.process.shim.request_listener import RequestListener, ShimRequest, address


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    deep = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 8)
    deep.mkdir(parents=True)
    handle = os.open(deep, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)


@pytest.fixture
def listener(folder: int) -> Iterator[RequestListener]:
    ready = RequestListener(folder)
    yield ready
    ready.close(folder)


def connected(folder: int) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(address(folder))
    return line


def accepted(listener: RequestListener) -> ShimRequest:
    number = listener.accept()
    assert number is not None
    return listener.callers[number]


def test_a_message_arrives_with_its_files_and_is_answered(folder: int, listener: RequestListener) -> None:
    reader, writer = os.pipe()
    with connected(folder) as line:
        socket.send_fds(line, [b'{"do": "it"}'], [writer])
        caller = accepted(listener)
        message, files = caller.receive()
        assert message == {"do": "it"}
        os.write(files[0], b"x")
        assert os.read(reader, 1) == b"x"
        caller.answer(done=True)
        assert line.recv(100) == b'{"done": true}'
        for handle in (reader, writer, *files):
            os.close(handle)


@pytest.mark.parametrize("text", [b"no json", b"[1]", b'"text"'])
def test_what_is_no_message_is_an_empty_one(folder: int, listener: RequestListener, text: bytes) -> None:
    with connected(folder) as line:
        line.send(text)
        assert accepted(listener).receive() == ({}, [])


def test_a_client_that_disconnects_is_received_as_none(folder: int, listener: RequestListener) -> None:
    connected(folder).close()
    caller = accepted(listener)
    assert caller.receive() == (None, [])
    caller.answer(nobody="listens")


def test_more_callers_than_allowed_are_sent_away(
    folder: int, listener: RequestListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CALLERS_MAX", 1)
    with connected(folder) as first, connected(folder) as second:
        accepted(listener)
        assert listener.accept() is None
        assert second.recv(1) == b""
        assert first.fileno() > 0
    assert listener.accept() is None


def test_a_socket_that_cannot_be_bound_says_why(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk(socket.socket):
        def bind(self, _address: object, /) -> None:
            self.close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(socket, "socket", FullDisk)
    with pytest.raises(OSError, match="No space left"):
        RequestListener(folder)


def test_a_socket_that_a_predecessor_left_is_no_hindrance(folder: int) -> None:
    first = RequestListener(folder)
    second = RequestListener(folder)
    with connected(folder):
        assert second.accept() is not None
    first.close(folder)
    second.close(folder)
