"""Parses and validates the messages of a command that runs inside a kernel."""

from __future__ import annotations

import pytest

from sokovan.api.streaming.execution import read_request, read_size
from sokovan.domain.errors import InvalidInput
from sokovan.wire.api.execution import ExecRequest


def test_a_request_says_what_to_run() -> None:
    assert read_request('{"command": ["sh", "-c", "x"]}') == ExecRequest(command=["sh", "-c", "x"])
    wanted = read_request(b'{"command": ["sh"], "terminal": true, "rows": 5, "columns": 6}')
    assert (wanted.terminal, wanted.rows, wanted.columns) == (True, 5, 6)


@pytest.mark.parametrize("message", ["{}", '{"command": []}', '{"command": ["a\\u0000"]}', b"\xff", "[]"])
def test_a_request_that_says_nothing_is_refused(message: str | bytes) -> None:
    with pytest.raises(InvalidInput):
        read_request(message)


def test_a_size_is_two_sides() -> None:
    assert read_size('{"resize": [10, 20]}') == (10, 20)
    for message in ('{"resize": [10]}', '{"resize": [0, 1]}', '{"resize": [1, 10001]}', '{"resize": "10x20"}', "{}"):
        with pytest.raises(InvalidInput):
            read_size(message)
