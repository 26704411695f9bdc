"""Messages on the WebSocket of a command that runs inside a kernel."""

from __future__ import annotations

from sokovan.wire.api.execution import FRAME_MAX, ExecRequest, Resize, frames_of
from tests.unit.wire.api.bodies import read_by_both, refused


def test_a_command_runs_without_a_terminal_by_default() -> None:
    assert not read_by_both(ExecRequest, {"command": ["ls"]}).terminal
    assert "tty" in refused(ExecRequest, {"command": ["ls"], "tty": True})


def test_a_size_is_rows_and_columns() -> None:
    assert read_by_both(Resize, {"resize": (30, 100)}).resize == (30, 100)
    assert "resize" in refused(Resize, {"resize": (30,)})


def test_content_is_cut_into_frames_and_nothing_is_none() -> None:
    assert [len(frame) for frame in frames_of(b"a" * (FRAME_MAX + 1))] == [FRAME_MAX, 1]
    assert list(frames_of(b"")) == []
