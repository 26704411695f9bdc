"""Sessions with accelerators on a running server: their memory, whole devices and shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.embedded import Embedded
from tests.acceptance.endings import ended_well

GIB = 1 << 30


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """Two fake agents with eight devices and 512 GiB each."""
    server = Embedded(tmp_path_factory.mktemp("fleet"))
    with ended_well(server):
        server.start("--fake", "2x8", "--no-agent")
        yield server


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """This machine with one device that sessions may share."""
    server = Embedded(tmp_path_factory.mktemp("sharing"))
    with ended_well(server):
        server.start("--fake-gpus", "1", "--gpu-shares")
        yield server


def memory(server: Embedded, *options: str) -> int:
    """The memory of a session with these options."""
    done = server.cli("run", "-d", *options, "--", "sleep", "600")
    assert done.returncode == 0, done.stderr
    found = server.session(done.stdout.strip())["kernels"][0]["slots"]["mem"]
    server.end(done.stdout.strip())
    assert isinstance(found, int)
    return found


def test_memory_follows_the_devices_of_a_session_and_its_scaling_group_s_setting(fleet: Embedded) -> None:
    assert memory(fleet, "--gpus", "1") == 48 * GIB
    assert memory(fleet, "--gpus", "8") == 384 * GIB
    assert memory(fleet) == 8 * GIB
    assert memory(fleet, "--gpus", "1", "--mem", "1GiB") == GIB
    assert fleet.cli("scaling-group", "set", "default", "--mem-per-gpu", "10GiB").returncode == 0
    assert memory(fleet, "--gpus", "2") == 20 * GIB


def test_a_share_of_a_device_is_refused_where_only_whole_devices_are_offered(fleet: Embedded) -> None:
    done = fleet.cli("run", "--gpus", "0.5", "--", "true")
    assert done.returncode == 2
    assert "offers whole devices only (cuda.device), no shares of them" in done.stderr
    assert "--gpu-shares" in done.stderr


def test_two_sessions_share_a_device(sharing: Embedded) -> None:
    shows = "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(600)"
    sessions = [sharing.python(shows, resources={"cuda.shares": 0.5, "cpu": 0.5, "mem": "64MiB"}) for _ in range(2)]
    for session in sessions:
        assert sharing.says(session, "fake-0")
    for session in sessions:
        sharing.end(session)
