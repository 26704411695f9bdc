"""Requests for files, answered from the runtime's folders, and back into ports' types."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.agentlink.linked_files import LinkedFiles
from sokovan.agent.link.file_requests import answered
from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.kernel_files import FileRefused, KernelPath
from sokovan.wire.frames import ListFiles
from tests.unit.adapters.agentlink.test_linked_files import Linked
from tests.unit.adapters.process.files.kernels import Machine

A1 = AgentId("a1")


async def test_what_the_agent_finds_arrives_unchanged(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    work = machine.kernel()
    machine.wrote("k1", {"a": 3})
    linked, place = LinkedFiles(Linked(machine.files).request), KernelPath(KernelId("k1"), 1, "output")
    assert await linked.list(A1, place, after="", files_max=9) == await machine.files.list(place, after="", files_max=9)
    one = KernelPath(KernelId("k1"), 1, "output/a")
    assert await linked.read(A1, one, offset=1, limit=9, mark="") == await machine.files.read(
        one, offset=1, limit=9, mark=""
    )
    placed = await linked.put(A1, KernelPath(KernelId("k1"), 1, ""), machine.uploads.add({"x": b"1"}))
    assert (placed.done, placed.path) == (True, str(work / "x"))


async def test_an_agent_without_files_refuses() -> None:
    with pytest.raises(FileRefused):
        await answered(None, ListFiles(kernel_id="k1", attempt=1, path="", files_max=1))
