"""Environment, ranks and hosts of kernels at their start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.local.secret_box import AesSecretBox, SecretKey
from sokovan.domain.arrays import ArrayMember
from sokovan.domain.ids import AgentId, ArrayId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.owners.outputs import OutputLimits
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.serving.engine import LOOPBACK, SERVICE_PORT
from sokovan.domain.session import MASTER_LEASE, KernelSpec, Mount, SessionSpec, SessionType
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.launch import (
    HOSTFILE,
    RESERVED,
    launches,
)
from sokovan.ports.secrets import SecretsUnreadable
from sokovan.wire.frames import CreateKernel, MountEntry

S1 = SessionId("s-1")
ADDRESSES = {AgentId("a"): "10.0.0.1", AgentId("b"): "10.0.0.2"}
SLOTS = ResourceSlot({"cpu": 2000, "mem": 1 << 30})


def session(*agents: str | None, kernel: Mapping[str, Any] | None = None, **options: Any) -> SessionRecord:
    """A session whose kernels lie on these agents, ranked in order; None waits."""
    placed = [n for n, agent in enumerate(agents) if agent is not None]
    specs = tuple(
        KernelSpec(
            KernelId(f"k-{n}"),
            SLOTS,
            **{"group": "sub" if n else "main", "image": "host", "command": ("true",)} | dict(kernel or {}),
        )
        for n in range(len(agents))
    )
    records = tuple(
        KernelRecord(
            KernelId(f"k-{n}"),
            S1,
            n,
            KernelStatus.PENDING if agent is None else KernelStatus.PREPARED,
            1,
            SLOTS,
            attempt=n + 1,
            agent_id=None if agent is None else AgentId(agent),
            devices={"cuda.device": (str(n),)},
            rank=placed.index(n) if n in placed else None,
            host_ports={MASTER_LEASE: 30_000} if placed[:1] == [n] else {},
        )
        for n, agent in enumerate(agents)
    )
    spec = SessionSpec(S1, specs, **{"name": "ddp", **options})
    return SessionRecord(S1, spec, SessionStatus.PREPARED, 1, Goal.RUN, 0, records)


def environments(*agents: str | None) -> list[Mapping[str, str]]:
    return [launch.environment for launch in launches(session(*agents), ADDRESSES)]


def values(environment: Mapping[str, str], *names: str) -> list[str]:
    return [environment[name] for name in names]


def test_a_kernel_alone_is_a_cluster_of_one() -> None:
    (environment,) = environments("a")

    assert values(environment, "SOKOVAN_SESSION_ID", "SOKOVAN_SESSION_NAME", "SOKOVAN_KERNEL") == ["s-1", "ddp", "k-0"]
    assert values(environment, "SOKOVAN_RANK", "SOKOVAN_SIZE", "SOKOVAN_ROLE") == ["0", "1", "main"]
    assert values(environment, "MASTER_ADDR", "WORLD_SIZE", "RANK") == ["10.0.0.1", "1", "0"]


def test_ranks_follow_the_indexes_of_kernels_wherever_they_lie() -> None:
    found = environments("b", "a", "b", "a")

    assert [
        values(one, "SOKOVAN_RANK", "RANK", "NODE_RANK", "GROUP_RANK", "OMPI_COMM_WORLD_RANK") for one in found
    ] == [[str(n)] * 5 for n in range(4)]
    assert {one["WORLD_SIZE"] for one in found} == {one["SOKOVAN_SIZE"] for one in found} == {"4"}
    assert [one["SOKOVAN_ROLE"] for one in found] == ["main", "sub", "sub", "sub"]


def test_all_meet_where_the_first_kernel_is() -> None:
    found = environments("b", "a", "b")

    assert {one["MASTER_ADDR"] for one in found} == {"10.0.0.2"}
    assert {one["MASTER_PORT"] for one in found} == {"30000"}
    assert {one["SOKOVAN_HOSTS"] for one in found} == {"10.0.0.2,10.0.0.1,10.0.0.2"}


def test_local_ranks_count_the_kernels_of_one_machine() -> None:
    found = environments("a", "b", "a", "a")

    assert [one["SOKOVAN_LOCAL_RANK"] for one in found] == ["0", "0", "1", "2"]
    assert [one["SOKOVAN_LOCAL_SIZE"] for one in found] == ["3", "1", "3", "3"]
    assert [one["OMPI_COMM_WORLD_LOCAL_RANK"] for one in found] == ["0", "0", "1", "2"]


def test_a_session_on_one_machine_may_have_a_network_unless_it_grows_or_serves() -> None:
    def own(record: SessionRecord) -> set[bool]:
        return {one.own_network for one in launches(record, ADDRESSES)}

    together = session("a", "a")
    assert (own(together), own(session("a")), own(session("a", "b"))) == ({True}, {True}, {False})
    grows = replace(together, spec=replace(together.spec, min_kernels=1))
    serves = replace(together, spec=replace(together.spec, session_type=SessionType.INFERENCE))
    assert own(grows) == own(serves) == {False}


def test_a_kernel_sees_its_own_devices_only_so_it_is_the_first_on_its_node() -> None:
    assert [values(one, "LOCAL_RANK", "LOCAL_WORLD_SIZE") for one in environments("a", "a")] == [["0", "1"]] * 2


def test_the_host_file_names_each_host_once_in_the_order_of_ranks() -> None:
    launch = launches(session("b", "a", "b"), ADDRESSES)[1]

    assert launch.files == {HOSTFILE: "10.0.0.2 slots=2\n10.0.0.1 slots=1\n"}
    assert launch.environment["SOKOVAN_HOSTFILE"] == HOSTFILE


def test_the_kernels_of_a_gang_share_one_list_of_hosts() -> None:
    # A list for each kernel would need memory that grows with the square of the gang.
    launched = [one.environment["SOKOVAN_HOSTS"] for one in launches(session(*["a1"] * 50), ADDRESSES)]
    files = [one.files[HOSTFILE] for one in launches(session(*["a1"] * 50), ADDRESSES)]
    assert all(one is launched[0] for one in launched)
    assert len({id(one) for one in files}) == 1


def test_an_agent_without_an_address_is_this_machine() -> None:
    (launch,) = launches(session("somewhere"), {})

    assert launch.environment["MASTER_ADDR"] == LOOPBACK == "127.0.0.1"


def test_a_kernel_without_a_network_reaches_itself_at_loopback() -> None:
    alone = session("a1")
    alone = replace(alone, spec=replace(alone.spec, isolated_network=True))
    (launch,) = launches(alone, {AgentId("a1"): "10.0.0.1"})
    assert launch.environment["MASTER_ADDR"] == LOOPBACK


def test_pending_kernels_are_not_in_the_environment() -> None:
    found = launches(session("a", None, "b"), ADDRESSES)

    assert [launch.kernel_id for launch in found] == ["k-0", "k-2"]
    assert [launch.environment["RANK"] for launch in found] == ["0", "1"]
    sizes = {tuple(values(one.environment, "WORLD_SIZE", "SOKOVAN_SIZE", "OMPI_COMM_WORLD_SIZE")) for one in found}
    assert sizes == {("2", "2", "2")}
    assert {one.environment["SOKOVAN_HOSTS"] for one in found} == {"10.0.0.1,10.0.0.2"}


def test_a_kernel_that_comes_later_goes_on_counting() -> None:
    before, after = environments("a", "b", None), environments("a", "b", "a")

    assert [one["RANK"] for one in before] == ["0", "1"]
    assert [one["RANK"] for one in after] == ["0", "1", "2"]
    assert after[2]["WORLD_SIZE"] == "3"


def test_ranks_are_those_stored_with_the_placement() -> None:
    record = session("a", "b", "a")
    late = replace(record, kernels=tuple(replace(one, rank=(one.index + 2) % 3) for one in record.kernels))
    found = launches(late, ADDRESSES)

    assert [(one.kernel_id, one.environment["RANK"]) for one in found] == [("k-1", "0"), ("k-2", "1"), ("k-0", "2")]
    assert {one.environment["MASTER_ADDR"] for one in found} == {"10.0.0.2"}
    assert {one.environment["SOKOVAN_HOSTS"] for one in found} == {"10.0.0.2,10.0.0.1,10.0.0.1"}


def test_a_kernel_that_is_being_placed_again_still_counts() -> None:
    record = session("a", "b", None)
    again = replace(record, kernels=(*record.kernels[:2], replace(record.kernels[2], rank=2)))

    assert {one.environment["WORLD_SIZE"] for one in launches(again, ADDRESSES)} == {"3"}


def test_a_launch_names_the_digest_of_a_pinned_image() -> None:
    digest = "sha256:" + "d" * 64
    (launch,) = launches(session("a", kernel={"image": "torch:2"}, image_digests={"torch:2": digest}), ADDRESSES)

    assert isinstance(launch, CreateKernel)
    assert launch.image == f"torch:2@{digest}"


def test_a_launch_has_everything_that_the_kernel_is() -> None:
    mount = Mount("/srv", "/data")
    kernel = {"image": "venv:torch", "command": ("python", "train.py"), "environment": {"EPOCHS": "3"}}
    _, launch = launches(session("a", "b", kernel=kernel, mounts=(mount,)), ADDRESSES)

    assert isinstance(launch, CreateKernel)
    assert (launch.kernel_id, launch.attempt, launch.session_id) == ("k-1", 2, S1)
    assert (launch.image, launch.command) == ("venv:torch", ("python", "train.py"))
    assert launch.environment["EPOCHS"] == "3"
    assert (launch.mounts, launch.slots) == ((MountEntry("/srv", "/data"),), dict(SLOTS))
    assert launch.devices == {"cuda.device": ("1",)}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_what_the_system_says_is_never_overridden(name: str) -> None:
    (launch,) = launches(session("a", kernel={"environment": {name: "mine"}}), ADDRESSES)

    assert launch.environment[name] != "mine"


def test_every_variable_that_is_set_is_reserved() -> None:
    (environment,) = environments("a")

    assert {name for name in environment if not name.startswith("SOKOVAN_")} == RESERVED


def test_the_holder_of_ports_gets_their_numbers_and_all_the_port_where_they_meet() -> None:
    record = session("a", "b")
    first = replace(record.kernels[0], host_ports={"web-1": 30001, MASTER_LEASE: 30002})
    found = launches(replace(record, kernels=(first, record.kernels[1])), ADDRESSES)

    assert found[0].environment["SOKOVAN_PORT_WEB_1"] == "30001"
    assert "SOKOVAN_PORT_WEB_1" not in found[1].environment
    assert {one.environment["MASTER_PORT"] for one in found} == {"30002"}
    assert not any("#" in name for one in found for name in one.environment)


def test_a_session_without_kernels_in_place_starts_nothing() -> None:
    assert list(launches(session(None, None), ADDRESSES)) == []


def test_kernel_groups_give_their_names_as_roles() -> None:
    (launch,) = launches(session("a", kernel={"group": "parameter-server"}), ADDRESSES)

    assert launch.environment["SOKOVAN_ROLE"] == "parameter-server"


def test_without_a_lease_there_is_no_port_to_meet_at() -> None:
    record = session("a")
    (launch,) = launches(replace(record, kernels=(replace(record.kernels[0], host_ports={}),)), ADDRESSES)

    assert "MASTER_PORT" not in launch.environment


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12))
def test_local_ranks_are_numbered_without_gaps_on_every_agent(agents: list[str | None]) -> None:
    found = launches(session(*agents), ADDRESSES)

    by_agent: dict[str, list[int]] = {}
    for launch, agent in zip(found, [one for one in agents if one is not None], strict=True):
        by_agent.setdefault(agent, []).append(int(launch.environment["SOKOVAN_LOCAL_RANK"]))
        assert launch.environment["SOKOVAN_LOCAL_SIZE"] == str(agents.count(agent))
    assert all(ranks == list(range(len(ranks))) for ranks in by_agent.values())
    assert [launch.environment["RANK"] for launch in found] == [str(rank) for rank in range(len(found))]
    total = sum(int(line.rpartition("=")[2]) for line in (found[0].files[HOSTFILE].splitlines() if found else []))
    assert total == len(found)


def test_a_session_of_an_array_knows_its_index_and_those_of_the_others() -> None:
    member = ArrayMember(ArrayId("a-1"), 7, 4, 0, 9)
    (request,) = launches(session("a", name="sweep[7]", array=member), ADDRESSES)
    found = {name: value for name, value in request.environment.items() if name.startswith("SOKOVAN_ARRAY_")}
    assert found == {
        "SOKOVAN_ARRAY_ID": "a-1",
        "SOKOVAN_ARRAY_NAME": "sweep",
        "SOKOVAN_ARRAY_INDEX": "7",
        "SOKOVAN_ARRAY_COUNT": "4",
        "SOKOVAN_ARRAY_MIN": "0",
        "SOKOVAN_ARRAY_MAX": "9",
    }
    (alone,) = launches(session("a"), ADDRESSES)
    assert "SOKOVAN_ARRAY_INDEX" not in alone.environment


@pytest.mark.slow
def test_a_list_of_hosts_that_is_too_long_for_a_variable_is_in_the_host_file_only() -> None:
    addresses = {AgentId("a1"): "h" * 1_000 + ".example", AgentId("a2"): "10.0.0.2"}
    few, many = (launches(session(*["a1"] * size), addresses)[0] for size in (90, 110))
    assert len(few.environment["SOKOVAN_HOSTS"].split(",")) == 90
    assert "SOKOVAN_HOSTS" not in many.environment
    assert many.files[HOSTFILE].endswith(" slots=110\n")


def test_secrets_are_opened_for_their_owner_and_given_to_every_kernel() -> None:
    keys = [SecretKey.new()]
    box = AesSecretBox(lambda: keys)
    record = session("a", "b", secrets=("TOKEN",))
    record = replace(record, sealed=box.seal({"TOKEN": "x"}, owner=record.spec.owner.user))
    assert [one.environment["TOKEN"] for one in launches(record, ADDRESSES, secrets=box)] == ["x", "x"]
    foreign = replace(record, sealed=box.seal({"TOKEN": "x"}, owner="another"))
    for wrong in (foreign, replace(record, sealed="")):
        with pytest.raises(SecretsUnreadable):
            launches(wrong, ADDRESSES, secrets=box)


def test_a_replica_gets_its_leased_port_in_command_and_variables() -> None:
    kernel = {"command": ("serve", "--port={port}", "{other}"), "environment": {"PORT": "{port}"}}
    placed = session("a", kernel=kernel, session_type=SessionType.INFERENCE)
    leased = replace(placed, kernels=(replace(placed.kernels[0], host_ports={SERVICE_PORT: 20_001}),))
    (launch,) = launches(leased, ADDRESSES)
    assert launch.command == ("serve", "--port=20001", "{other}")
    assert values(launch.environment, "PORT", "SOKOVAN_PORT_SERVE") == ["20001", "20001"]


def test_the_words_of_other_sessions_stay_as_they_are() -> None:
    placed = session("a", kernel={"command": ("awk", "{port}")}, session_type=SessionType.BATCH)
    leased = replace(placed, kernels=(replace(placed.kernels[0], host_ports={SERVICE_PORT: 20_001}),))
    assert launches(leased, ADDRESSES)[0].command == ("awk", "{port}")


def test_the_disk_space_of_a_kernel_is_that_of_the_policy_before_that_of_the_settings() -> None:
    limits = OutputLimits(kernel_disk_max=7, owner_disk_max=9)
    for most, expected in ((None, 7), (5, 5), (0, 0)):
        (launch,) = launches(session("a", kernel_disk_max=most), ADDRESSES, limits)
        assert launch.output is not None
        assert (launch.output.kernel_disk_max, launch.output.owner_disk_max) == (expected, 9)


def test_each_kernel_names_its_own_leased_ports_unless_its_network_is_isolated() -> None:
    assert [launch.ports for launch in launches(session("b", "a"), ADDRESSES)] == [(30_000,), ()]
    isolated = launches(session("b", "a", isolated_network=True), ADDRESSES)
    assert [launch.ports for launch in isolated] == [(), ()]
