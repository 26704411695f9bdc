"""Frames carry everything, and refuse what cannot be."""

from __future__ import annotations

import msgspec
import pytest

from sokovan.wire import frames
from sokovan.wire.frames import Heartbeat, Hello, KernelEntry, KernelGone, Request, Response, StopKernel, Welcome


def decoded(content: object) -> frames.Frame:
    frame: frames.Frame = msgspec.convert(content, frames.Frame)
    return frame


def test_a_heartbeat_lists_every_kernel_in_few_bytes() -> None:
    kernels = tuple(KernelEntry(f"kernel-{number:020}", 1, running=True) for number in range(10_000))
    content = msgspec.msgpack.encode(Heartbeat(incarnation=3, sequence=9, kernels=kernels))

    assert len(content) < 1 << 19, "ten thousand kernels fill less than half a frame"


def test_a_field_that_a_later_release_added_is_skipped() -> None:
    frame = decoded({"type": "welcome", "incarnation": 2, "heartbeat_s": 5.0, "colour": "blue"})

    assert frame == Welcome(incarnation=2, heartbeat_s=5.0)


@pytest.mark.parametrize(
    "content",
    [
        {"type": "welcome", "incarnation": 0, "heartbeat_s": 5.0},
        {"type": "welcome", "incarnation": 1, "heartbeat_s": 0.0},
        {"type": "hello", "agent_id": "x" * 513, "software": "1"},
        {"type": "hello", "agent_id": "a", "software": "1", "slots": {"cpu": -1}},
        {"type": "answer", "number": -1, "reply": {"type": "done"}},
        {"type": "answer", "number": 1, "reply": {"type": "stop-kernel", "kernel_id": "k", "attempt": 1, "grace_s": 1}},
        {"type": "somersault"},
        ["hello"],
    ],
)
def test_a_frame_out_of_its_bounds_is_refused(content: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(content)


def test_asks_and_replies_say_which_they_are() -> None:
    request = Request(number=1, incarnation=2, allowed_ms=500, command=StopKernel("k1", 1, 3.0))
    answer = Response(1, KernelGone(gone=True, exit_code=137, detail={"reason": "out-of-memory"}))

    assert decoded(msgspec.to_builtins(request)) == request
    assert decoded(msgspec.to_builtins(answer)) == answer


def test_an_agent_that_has_just_started_has_no_incarnation() -> None:
    assert Hello(agent_id="a1", software="1").incarnation == 0
