"""Networks of sessions on an engine of canned answers; real ones in tests/integration."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.adapters.docker.engine.session_networks import SessionNetwork, SessionNetworks, ranks_of
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel
from tests.unit.adapters.docker.canned_engine import CannedEngine, canned_engine


def launch(rank: int = 0, size: int = 2, **options: Any) -> CreateKernel:
    environment = {"SOKOVAN_RANK": str(rank), "SOKOVAN_SIZE": str(size), "SOKOVAN_HOSTFILE": "hosts"}
    given = {"environment": environment, "own_network": True, **options}
    return CreateKernel("k1", 1, "s1", "python:1", ("python",), **given)


def networks(engine: CannedEngine, pool: str = "10.0.0.0/22") -> SessionNetworks:
    made = SessionNetworks(engine.client, ("sokovan.runtime", "r"), "sokovan.session")
    made.pool = pool
    return made


def listed(identity: str, session: str = "", subnet: str = "") -> dict[str, Any]:
    config = [{"Subnet": subnet}] if subnet else None
    return {"Id": identity, "Labels": {"sokovan.session": session}, "IPAM": {"Config": config}}


async def test_a_session_takes_the_first_range_that_no_other_network_has() -> None:
    others = [listed("1", subnet="10.0.0.0/23"), listed("2", subnet="fd00::/64"), listed("3")]
    answers = {"GET /networks": (200, others), "POST /networks/create": (201, {"Id": "n"})}
    async with canned_engine(answers) as engine, networks(engine).used(launch(1)) as found:
        assert found is not None
        assert (found.subnet, found.rank, found.size) == ("10.0.2.0/24", 1, 2)
        body = engine.bodies["POST /networks/create"]
        assert body["Labels"] == {"sokovan.runtime": "r", "sokovan.session": "s1"}


async def test_the_next_kernel_finds_the_network_of_its_session() -> None:
    async with canned_engine() as engine:
        made = networks(engine)
        engine.answers[f"GET /networks/{made._name('s1')}"] = (200, listed("1", "s1", "10.0.3.0/24"))
        async with made.used(launch()) as found:
            assert found is not None
            assert found.subnet == "10.0.3.0/24"


@pytest.mark.parametrize(
    ("others", "refusal"), [("10.0.0.0/8", "all of 10.0.0.0/22 is in use"), ("10.9.0.0/24", "Pool overlaps")]
)
async def test_a_range_without_room_is_told(others: str, refusal: str) -> None:
    answers = {
        "GET /networks": (200, [listed("1", subnet=others)]),
        "POST /networks/create": (403, {"message": "Pool overlaps"}),
    }
    async with canned_engine(answers) as engine:
        with pytest.raises(RuntimeFailure, match=refusal):
            async with networks(engine).used(launch()):
                pass


async def test_networks_without_containers_are_removed_but_not_while_a_kernel_starts() -> None:
    mine = [listed("n1", "s1", "10.0.0.0/24"), listed("n2", "s2"), listed("n3", "s3")]
    async with canned_engine({"GET /networks": (200, mine)}) as engine:
        made = networks(engine)
        engine.answers[f"GET /networks/{made._name('s1')}"] = (200, mine[0])
        async with made.used(launch()):
            await made.sweep({"s2"})
            assert [one for one in engine.asked if one.startswith("DELETE")] == ["DELETE /networks/n3"]
        await made.sweep({"s2", "s3"})
        assert [one for one in engine.asked if one.startswith("DELETE")][1:] == ["DELETE /networks/n1"]


async def test_without_a_range_no_network_is_asked_for() -> None:
    async with canned_engine() as engine:
        made = networks(engine, pool="")
        async with made.used(launch()) as found:
            assert found is None
        await made.sweep(())
        assert engine.asked == []


@pytest.mark.parametrize(
    "given",
    [
        launch(own_network=False),
        launch(isolated_network=True),
        launch(environment={}),
        launch(size=251),
        launch(rank=2),
    ],
)
def test_other_kernels_share_the_network_of_the_machine(given: CreateKernel) -> None:
    assert ranks_of(given) is None


def test_kernels_get_the_names_of_their_network() -> None:
    network = SessionNetwork("n", "10.0.0.0/24", size=2, rank=0)
    named = network.named(launch(files={"hosts": "127.0.0.1 slots=2"}))
    assert (named.environment["SOKOVAN_HOSTS"], named.environment["MASTER_ADDR"]) == ("rank-0,rank-1", "rank-0")
    assert named.files == {"hosts": "rank-0 slots=1\nrank-1 slots=1\n"}
