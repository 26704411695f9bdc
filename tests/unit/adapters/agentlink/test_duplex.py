"""Any ordered message connection can carry a link."""

from __future__ import annotations

from sokovan.adapters.agentlink.duplex import Duplex
from tests.unit.adapters.agentlink.lines import BEAT, Line


async def test_messages_arrive_whole_and_in_order_until_the_peer_disconnects() -> None:
    line = Line()
    duplex: Duplex = line
    line.says(BEAT)
    line.says_bytes(b"second")
    line.hangs_up()

    await duplex.ping()
    assert await duplex.receive()
    assert await duplex.receive() == b"second"
    assert await duplex.receive() is None
