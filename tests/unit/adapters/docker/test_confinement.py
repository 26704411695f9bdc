"""What isolates containers, as the engine tells."""

from __future__ import annotations

import os
from pathlib import Path

from sokovan.adapters.docker.confinement import ContainerConfinement, probed
from sokovan.adapters.docker.container_spec import ContainerPolicy
from sokovan.adapters.process.isolation.accounts import Accounts
from sokovan.domain.cluster.agent import ISOLATED_BY_SANDBOX, ISOLATION_LABEL
from sokovan.domain.ids import KernelId, SessionId
from sokovan.wire.frames import CreateKernel, OutputTerms
from tests.unit.adapters.docker.canned_engine import VERSION, canned_engine


async def test_docker_and_podman_are_told_apart() -> None:
    podman = {**VERSION, "Version": "4.3.1", "Components": [{"Name": "Podman Engine"}]}
    info = {"NCPU": 8, "SecurityOptions": ["name=seccomp", "name=rootless"]}
    async with canned_engine({"GET /version": (200, podman), "GET /info": (200, info)}) as engine:
        found = await probed(engine.client, ContainerPolicy(), None)
    assert (found.engine, found.policy.cpus, found.rootless) == ("Podman 4.3.1", 8, True)
    assert found.user_of(None) == "0:0"


def test_containers_are_described_for_people_and_programs() -> None:
    found = ContainerConfinement("Docker 20.10", ContainerPolicy(read_only_root=False))
    assert found.in_words().startswith("containers of Docker 20.10: no capabilities")
    assert "writable root" in found.in_words()
    assert found.labels()[ISOLATION_LABEL] == ISOLATED_BY_SANDBOX
    assert found.labels()["sokovan.engine"] == "Docker 20.10"
    assert found.user_of(None) == f"{os.geteuid()}:{os.getegid()}"


def test_each_user_has_an_account_of_their_own(tmp_path: Path) -> None:
    found = ContainerConfinement("Docker", ContainerPolicy(), accounts=Accounts(tmp_path, range(200_000, 200_100)))

    def account(owner: str) -> int | None:
        terms = OutputTerms(owner, 1, 1, 1)
        return found.account_of(CreateKernel(KernelId("k"), 1, SessionId("s"), "a", ("b",), output=terms))

    assert account("ann") == account("ann") != account("bob")
    assert found.user_of(account("ann")) == f"{account('ann')}:{account('ann')}"
