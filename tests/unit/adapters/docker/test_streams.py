"""Commands and connections need a running container; remains are removed by their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.docker.streams import ContainerStreams
from sokovan.adapters.process.layout import KernelLayout
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.testing.clock import VirtualClock
from tests.unit.adapters.docker.canned_engine import canned_engine


async def test_nothing_is_opened_in_a_kernel_that_does_not_run(tmp_path: Path) -> None:
    async with canned_engine() as engine:
        streams = ContainerStreams(engine.client, KernelLayout(tmp_path), VirtualClock())
        for opened in (
            streams.execute(KernelId("k"), 1, ("ls",), terminal=False),
            streams.connect(KernelId("k"), 1, 8080),
        ):
            with pytest.raises(RuntimeFailure, match="does not run"):
                async with opened:
                    pass


async def test_remains_are_removed_by_the_name_in_their_traces(tmp_path: Path) -> None:
    async with canned_engine({"DELETE /containers/c": (204, None)}) as engine:
        streams = ContainerStreams(engine.client, KernelLayout(tmp_path), VirtualClock())
        assert await streams.end_remains(KernelId("k"), 1, '{"container": "c"}') == ""
        assert "DELETE /containers/c?force=1&v=1" in engine.asked
        assert await streams.end_remains(KernelId("k"), 1, "") == ""
