"""Messages between processes: each arrives as it was sent."""

from __future__ import annotations

import msgspec
import pytest

from sokovan.adapters.agentlink.relay.process_messages import (
    JoiningWanted,
    LinksWanted,
    LinkUnwanted,
    MetricsWanted,
    ProcessRequest,
    StatesWanted,
    StateWanted,
    Wanted,
)
from sokovan.wire.frames import MeasureKernel, ReadLog


@pytest.mark.parametrize(
    "wanted",
    [
        ReadLog("k1", 1, 2, 3),
        MeasureKernel("k1", 1),
        StateWanted(),
        StatesWanted(),
        LinksWanted("digest"),
        JoiningWanted(),
        LinkUnwanted(),
        MetricsWanted(),
    ],
)
def test_a_request_is_read_as_it_was_written(wanted: Wanted) -> None:
    request = ProcessRequest("a1", wanted)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=ProcessRequest) == request
