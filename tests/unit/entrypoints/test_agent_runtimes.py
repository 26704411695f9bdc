"""The runtime of an agent: processes, or containers of an engine that answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.docker.engine.client import EngineUnavailable
from sokovan.adapters.docker.runtime import DockerRuntime
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.domain.cluster.agent import DOCKER_RUNTIME, PROCESS_RUNTIME
from sokovan.entrypoints.agent_runtimes import BuiltRuntime, RuntimeOptions, built_runtime, first_commands
from tests.unit.adapters.docker.canned_engine import canned_engine


async def built(options: RuntimeOptions) -> BuiltRuntime:
    """The runtime, without uploads."""
    return await built_runtime(options, SystemClock(), UploadFolders(options.root), log=lambda _: None)


@pytest.mark.slow
async def test_kernels_are_processes_by_default(tmp_path: Path) -> None:
    found = await built(RuntimeOptions(tmp_path))
    assert isinstance(found.runtime, ProcessRuntime)
    assert found.watch.ended is not None
    found.runtime.close()


async def test_kernels_are_containers_if_that_is_chosen(tmp_path: Path) -> None:
    async with canned_engine({"GET /info": (200, {"NCPU": 2}), "GET /images/json": (200, [])}) as engine:
        options = RuntimeOptions(tmp_path, runtime=DOCKER_RUNTIME, engine=f"unix://{engine.client.socket}")
        found = await built(options)
        assert isinstance(found.runtime, DockerRuntime)
        assert "containers of Docker 20.10" in found.isolation.in_words()
        assert await found.runtime.installed_images() == ()
        assert engine.client.socket.resolve() in found.runtime._hidden  # no container is given the engine's socket
        found.runtime.close()


async def test_an_engine_that_does_not_answer_is_said_in_one_line(tmp_path: Path) -> None:
    options = RuntimeOptions(tmp_path, runtime=DOCKER_RUNTIME, engine=str(tmp_path / "nobody"))
    with pytest.raises(EngineUnavailable, match="no container engine answers at") as caught:
        await built(options)
    assert "\n" not in caught.value.message


def test_what_to_try_first_names_an_image_where_kernels_are_containers() -> None:
    assert any("run --" in line and "--image" not in line for line in first_commands(PROCESS_RUNTIME))
    containers = first_commands(DOCKER_RUNTIME)
    assert any("image set python" in line for line in containers)
    assert all("--image" in line for line in containers if "sokovan run" in line)
