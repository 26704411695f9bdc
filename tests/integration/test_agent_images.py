"""Images from the manager's side: requested, reported while they are pulled, and used or given up."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.agent.watcher import WatchOptions
from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import ImageReport, ImageState
from tests.integration.agent_rig import AGENT, Agent, Manager, Register, comes_true, launch
from tests.kernels import runtime_in
from tests.linked_venv import LINKED_CREATOR

PULL_S = 120.0


@pytest.fixture
async def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProcessRuntime]:
    monkeypatch.setattr("sokovan.adapters.process.images.CREATOR", LINKED_CREATOR)
    async with runtime_in(tmp_path / "machine") as ready:
        yield ready


@pytest.fixture
async def manager(tmp_path: Path, runtime: ProcessRuntime) -> AsyncIterator[Manager]:
    """A manager with one agent."""
    ready = Manager(Register())
    await ready.start()
    agent = Agent(
        tmp_path, ready.address, runtime=runtime, watch=WatchOptions(changes=runtime.changes, ended=runtime.ended)
    )
    await comes_true(lambda: ready.agents.connected(AGENT))
    yield ready
    await agent.stop()
    await ready.stop()


def reported(manager: Manager, image: str) -> ImageReport | None:
    return next((report for report in manager.images if report.image == image), None)


def ended(pipe: Path) -> bool:
    """Whether a pipe has a reader, who has now read an empty file."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


async def test_an_image_is_pulled_with_progress_and_then_runs(tmp_path: Path, manager: Manager) -> None:
    # Its installer waits until its list of requirements is written, so that no pull is too fast to be seen.
    listed = tmp_path / "requirements"
    os.mkfifo(listed)
    (tmp_path / "machine" / "images" / "plain.txt").write_text(f"-r {listed}\n")
    first = await manager.agents.prepare_image(AGENT, 1, "venv:plain")
    assert first.state is ImageState.PULLING
    await comes_true(lambda: (report := reported(manager, "venv:plain")) and report.detail, limit_s=PULL_S)
    await comes_true(lambda: ended(listed), limit_s=PULL_S)
    await comes_true(
        lambda: (report := reported(manager, "venv:plain")) and report.state is ImageState.READY, limit_s=PULL_S
    )
    assert (await manager.agents.prepare_image(AGENT, 1, "venv:plain")).state is ImageState.READY

    script = "import sys; print(sys.prefix != sys.base_prefix)"
    await manager.agents.create_kernel(AGENT, 1, launch("k1", "python", "-c", script, image="venv:plain"))
    await comes_true(lambda: (report := manager.report("k1")) and report.exit_code == 0)
    assert (await manager.agents.read_log(AGENT, KernelId("k1"), 1, offset=0, limit=100)).data == b"True\n"


async def test_an_image_that_cannot_be_installed_has_failed_and_says_why(tmp_path: Path, manager: Manager) -> None:
    (tmp_path / "machine" / "images" / "broken.txt").write_text("nothing @ file:///there/is/nothing.whl\n")
    assert (await manager.agents.prepare_image(AGENT, 1, "venv:broken")).state is ImageState.PULLING
    await comes_true(
        lambda: (report := reported(manager, "venv:broken")) and report.state is ImageState.FAILED, limit_s=PULL_S
    )
    report = reported(manager, "venv:broken")
    assert report is not None
    assert "its installation failed" in report.detail
    assert "nothing.whl" in report.detail


@pytest.mark.parametrize(
    ("image", "why"),
    [("venv:unheard-of", "no list of requirements"), ("venv:../x", "only"), ("docker.io/library/python", "only")],
)
async def test_an_image_that_is_not_known_fails_at_once(manager: Manager, image: str, why: str) -> None:
    report = await manager.agents.prepare_image(AGENT, 1, image)
    assert report.state is ImageState.FAILED
    assert why in report.detail
