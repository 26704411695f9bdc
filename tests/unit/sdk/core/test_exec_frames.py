"""The frames of a command that runs inside a kernel."""

from __future__ import annotations

import json

import pytest

from sokovan.sdk.core.exec_frames import Finished, Terminal, opening, read, resized
from sokovan.sdk.errors import Refused, UnexpectedAnswer


def test_the_first_frame_has_the_command_and_the_terminal() -> None:
    assert json.loads(opening(["ls", "-l"], None)) == {"command": ["ls", "-l"]}
    wide = json.loads(opening(["bash"], Terminal(50, 200)))
    assert wide == {"command": ["bash"], "terminal": True, "rows": 50, "columns": 200}
    assert json.loads(resized(Terminal(1, 2))) == {"resize": [1, 2]}


def test_output_is_bytes_and_the_end_has_a_code() -> None:
    assert read(b"abc") == b"abc"
    assert read('{"exit_code": 7}') == Finished(7)


def test_a_problem_is_raised() -> None:
    with pytest.raises(Refused, match="is pending"):
        read('{"type":"","title":"","status":409,"detail":"is pending","code":"conflict"}')


@pytest.mark.parametrize("frame", ["{}", "[]", "x", '{"exit_code": "7"}'])
def test_anything_else_is_not_our_server(frame: str) -> None:
    with pytest.raises(UnexpectedAnswer):
        read(frame)
