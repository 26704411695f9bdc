"""A command that runs in a kernel, for the sync client."""

from __future__ import annotations

import pytest

from sokovan.sdk.core.exec_frames import Terminal
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.errors import Refused, Unauthorized, Unreachable
from sokovan.sdk.sync.execution import execute
from sokovan.wire.api.execution import FRAME_MAX
from tests.unit.sdk.fake_websocket import fake_websocket


def test_input_goes_there_and_output_comes_back_with_a_code() -> None:
    with fake_websocket() as (fake, endpoint), execute(endpoint, "ddp", ["7", "-x"], kernel=2) as execution:
        execution.write(b"abc")
        assert next(iter(execution)) == b"ABC"
        execution.end_input()
        assert execution.exit_code == 7
        execution.end_input()  # too late, and no harm
        assert fake.opened == [{"command": ["7", "-x"]}]
        assert fake.paths == ["/api/v1/sessions/ddp/kernels/2/exec"]


def test_large_input_goes_in_parts() -> None:
    with fake_websocket() as (_, endpoint), execute(endpoint, "ddp", ["0"]) as execution:
        execution.write(b"a" * (FRAME_MAX + 1))
        execution.end_input()
        assert [len(part) for part in execution] == [FRAME_MAX, 1]


def test_a_terminal_has_a_size_that_may_change() -> None:
    with fake_websocket() as (fake, endpoint), execute(endpoint, "ddp", ["0"], terminal=Terminal(25, 90)) as execution:
        execution.resize(Terminal(30, 100))
        execution.end_input()
        assert execution.exit_code == 0
        assert fake.opened[0]["columns"] == 90
        assert fake.resized == [[30, 100]]


def test_a_refused_handshake_is_a_problem() -> None:
    with fake_websocket("bad") as (_, endpoint), pytest.raises(Unauthorized):
        execute(endpoint, "ddp", ["0"])


def test_a_refusal_later_is_a_problem_too() -> None:
    with (
        fake_websocket() as (_, endpoint),
        execute(endpoint, "ddp", ["refuse"]) as execution,
        pytest.raises(Refused, match="is pending"),
    ):
        list(execution)


def test_a_lost_connection_raises() -> None:
    with (
        fake_websocket() as (_, endpoint),
        execute(endpoint, "ddp", ["vanish"]) as execution,
        pytest.raises(Unreachable, match="is lost"),
    ):
        list(execution)


def test_an_unreachable_server_raises() -> None:
    with pytest.raises(Unreachable):
        execute(ServerEndpoint("http://127.0.0.1:1", "t"), "ddp", ["0"])
