"""What is written in one turn is sent at once, and nothing is lost or kept back."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from sokovan.entrypoints.web.response_writes import GATHERED_MAX, ResponseWrites


class Wire:
    """Notes the calls that would be system calls."""

    def __init__(self) -> None:
        self.calls: list[bytes | str] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("close")
        self.closing = True

    def abort(self) -> None:
        self.calls.append("abort")
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


def gathered() -> tuple[Wire, Any]:
    wire = Wire()
    return wire, ResponseWrites(cast("asyncio.Transport", wire))


async def turn() -> None:
    await asyncio.sleep(0)  # noqa: TID251  # yields, and does not wait


async def test_head_and_body_of_a_response_are_one_call() -> None:
    wire, transport = gathered()
    transport.write(b"head ")
    transport.write(b"body")
    assert wire.calls == []

    await turn()
    transport.writelines([b"next ", b"response"])
    await turn()
    assert wire.calls == [b"head body", b"next response"]


async def test_what_was_written_is_sent_before_the_end_of_the_connection() -> None:
    wire, transport = gathered()
    transport.write(b"last words")
    transport.close()
    await turn()
    assert wire.calls == [b"last words", "close"]


async def test_an_aborted_connection_sends_nothing_more() -> None:
    wire, transport = gathered()
    transport.write(b"too late")
    transport.abort()
    await turn()
    assert wire.calls == ["abort"]


async def test_much_is_sent_before_the_turn_ends() -> None:
    wire, transport = gathered()
    transport.write(b"x" * GATHERED_MAX)
    transport.write(b"y")
    assert wire.calls == [b"x" * GATHERED_MAX + b"y"]

    await turn()
    assert len(wire.calls) == 1


async def test_everything_else_is_that_of_the_connection() -> None:
    _, transport = gathered()
    assert transport.get_extra_info("peername") == "the peername"
    assert not transport.is_closing()
