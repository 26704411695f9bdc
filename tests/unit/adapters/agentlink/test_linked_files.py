"""Requests for files over a link, encoded and decoded as on the wire."""

from __future__ import annotations

from typing import Any

import msgspec

from sokovan.adapters.agentlink.linked_files import LinkedFiles
from sokovan.agent.link.file_requests import answered
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.kernel_files import FileListing, KernelFiles, KernelPath
from sokovan.wire import frames
from sokovan.wire.link_codec import decode, encode

A1 = AgentId("a1")


class Linked:
    """Sends commands and replies through the codec of a link."""

    def __init__(self, files: KernelFiles) -> None:
        self.files, self.asked = files, list[tuple[AgentId, int]]()

    async def request(
        self, agent_id: AgentId, incarnation: int, command: frames.Command, expected: type[Any], /
    ) -> Any:
        """The reply to a command."""
        self.asked.append((agent_id, incarnation))
        sent = decode(encode(frames.Request(number=1, incarnation=incarnation, allowed_ms=1, command=command)))
        assert isinstance(sent, frames.Request)
        assert isinstance(sent.command, frames.ListFiles | frames.ReadFile | frames.PlaceUpload)
        received = decode(encode(frames.Response(1, await answered(self.files, sent.command))))
        assert isinstance(received, frames.Response)
        assert isinstance(received.reply, expected)
        return received.reply


class Nothing:
    """Files of a kernel that has none."""

    async def list(self, place: KernelPath, *, after: str, files_max: int) -> FileListing:
        assert (place.path, after, files_max) == ("p", "a", 7)
        return FileListing(is_folder=True)

    async def read(self, place: KernelPath, *, offset: int, limit: int, mark: str) -> Any:
        raise NotImplementedError

    async def put(self, place: KernelPath, upload: str) -> Any:
        raise NotImplementedError


async def test_a_request_reaches_any_incarnation_of_its_agent() -> None:
    linked = Linked(Nothing())
    listing = await LinkedFiles(linked.request).list(A1, KernelPath(KernelId("k1"), 2, "p"), after="a", files_max=7)
    assert listing == FileListing(is_folder=True)
    assert linked.asked == [(A1, 0)]


def test_the_largest_part_fits_into_a_frame() -> None:
    data = frames.FileData(b"x" * (512 << 10), 1, "m")
    assert len(msgspec.msgpack.encode(data)) < (1 << 20)
    encode(frames.Response(1, data))
