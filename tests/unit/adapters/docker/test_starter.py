"""Starts of containers: what is refused leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from sokovan.adapters.docker.confinement import ContainerConfinement
from sokovan.adapters.docker.container_spec import RUNTIME_LABEL, SESSION_LABEL, ContainerPolicy
from sokovan.adapters.docker.container_traces import container_of, traces_of
from sokovan.adapters.docker.engine.images import EngineImages
from sokovan.adapters.docker.engine.session_networks import SessionNetworks
from sokovan.adapters.docker.starter import ContainerStarter
from sokovan.adapters.process.layout import KernelLayout
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.runtime import ImageUnavailable, KernelRemains, ProgramNotFound
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import CreateKernel
from tests.unit.adapters.docker.canned_engine import CannedEngine, canned_engine

LAUNCH = CreateKernel(KernelId("k"), 1, SessionId("s"), "train", ("python",))
IMAGE = {"GET /images/train/json": (200, {"Id": "sha256:1", "Config": {"Env": ["PATH=/a:/b"]}})}
CREATED = {**IMAGE, "POST /containers/create": (201, {"Id": "c"})}


def starter(engine: CannedEngine, root: Path) -> ContainerStarter:
    """A starter with all folders."""
    layout = KernelLayout(root)
    layout.prepare()
    confinement = ContainerConfinement("Docker", ContainerPolicy())
    return ContainerStarter(
        engine.client,
        layout,
        EngineImages(engine.client, root),
        confinement,
        (root,),
        VirtualClock(),
        SessionNetworks(engine.client, (RUNTIME_LABEL, "r"), SESSION_LABEL),
    )


async def test_a_missing_image_is_refused(tmp_path: Path) -> None:
    async with canned_engine() as engine:
        one = starter(engine, tmp_path)
        with pytest.raises(ImageUnavailable, match="does not have it"):
            await one.start(LAUNCH)
        assert one.layout.names() == []


async def test_a_program_that_the_image_does_not_have_is_refused(tmp_path: Path) -> None:
    async with canned_engine(CREATED) as engine:
        one = starter(engine, tmp_path)
        with pytest.raises(ProgramNotFound, match="'python' was not found in image 'train'"):
            await one.start(LAUNCH)
        name = container_of(traces_of(tmp_path, "k", 1))
        looked = [one for one in engine.asked if one.startswith("HEAD")]
        assert looked == [f"HEAD /containers/{name}/archive?path=%2F{folder}%2Fpython" for folder in "ab"]
        assert one.layout.names() == []


async def test_a_container_that_can_not_be_removed_keeps_its_folder(tmp_path: Path) -> None:
    name = container_of(traces_of(tmp_path, "k", 1))
    async with canned_engine({**CREATED, f"DELETE /containers/{name}": (500, {"message": "busy"})}) as engine:
        one = starter(engine, tmp_path)
        with pytest.raises(KernelRemains, match="busy"):
            await one.start(LAUNCH)
        assert one.layout.names() == ["k-1"]


async def test_a_pinned_image_is_started_by_its_id(tmp_path: Path) -> None:
    digest = "sha256:" + "d" * 64
    pinned = {**CREATED, f"GET /images/train@{digest}/json": (200, {"Id": "sha256:1"})}
    async with canned_engine(pinned) as engine:
        with pytest.raises(ProgramNotFound, match=f"image 'train@{digest}'"):
            await starter(engine, tmp_path).start(structs.replace(LAUNCH, image=f"train@{digest}"))
        assert engine.bodies["POST /containers/create"]["Image"] == "sha256:1"
