"""Agents: what a machine has, what is taken, and whether it gets work."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import (
    ACCOUNTS_DEFAULT,
    NO_ACCOUNTS,
    PORTS_DEFAULT,
    PORTS_LABEL,
    RUNTIME_LABEL,
    AgentInfo,
    account_range_text,
    can_run,
    port_range,
    port_range_text,
    read_account_range,
    read_network_range,
    read_port_range,
)
from sokovan.domain.errors import InvalidInput, InvalidName, InvalidSpec, SlotUnderflow
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

ID = AgentId("gpu-01")
ALL = ResourceSlot({"cpu": 8000, "cuda.device": 8})
SOME = ResourceSlot({"cpu": 3000})


def test_what_is_free_is_what_is_not_taken() -> None:
    assert AgentInfo(ID, ALL).free_slots == ALL
    assert AgentInfo(ID, ALL, occupied_slots=SOME).free_slots == ResourceSlot({"cpu": 5000, "cuda.device": 8})
    assert AgentInfo(ID, ALL, occupied_slots=ALL).free_slots == NO_SLOTS


def test_an_overcommitted_agent_says_so_rather_than_pretend_to_be_full() -> None:
    with pytest.raises(SlotUnderflow, match="cannot take 8000 cpu from 3000"):
        _ = AgentInfo(ID, SOME, occupied_slots=ALL).free_slots


@pytest.mark.parametrize("status", AgentStatus)
def test_only_an_agent_that_is_alive_gets_new_kernels(status: AgentStatus) -> None:
    assert AgentInfo(ID, ALL, status=status).schedulable == (status is AgentStatus.ALIVE)


def test_an_agent_takes_any_number_of_kernels_in_the_default_pool_by_default() -> None:
    agent = AgentInfo(ID, ALL)
    assert (agent.kernels_max, agent.scaling_group, agent.incarnation) == (None, "default", 1)
    assert AgentInfo(ID, ALL, kernels_max=0).kernels_max == 0


def test_only_what_is_taken_can_be_on_its_way_out() -> None:
    agent = AgentInfo(ID, ALL, occupied_slots=SOME, releasing_slots=SOME, kernel_count=2, releasing_count=2)
    assert (agent.releasing_slots, agent.releasing_count) == (SOME, 2)
    with pytest.raises(InvalidSpec, match=r"releasing_slots = .*: is more than is occupied"):
        AgentInfo(ID, ALL, releasing_slots=SOME)
    with pytest.raises(InvalidSpec, match="releasing_count = 3: must be 2 or less"):
        AgentInfo(ID, ALL, kernel_count=2, releasing_count=3)


def test_a_shard_has_a_name() -> None:
    assert AgentInfo(ID, ALL, shard="west").shard == "west"
    with pytest.raises(InvalidName, match="shard"):
        AgentInfo(ID, ALL, shard="")


def test_a_label_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="agent gpu-01: labels = 1"):
        AgentInfo(ID, ALL, labels={"rack": 1})  # type: ignore[dict-item]  # as YAML would read it


@pytest.mark.parametrize("text", ["1024-65535", "30000-30000", "31000-31999"])
def test_a_range_of_ports_is_written_as_it_is_read(text: str) -> None:
    assert port_range_text(read_port_range(text)) == text
    assert port_range({PORTS_LABEL: text}) == read_port_range(text)


@pytest.mark.parametrize(
    "text", ["", "31000", "1023-2000", "2000-1999", "2000-65536", "a-b", "31000-", "-1-5", "1e4-2e4", "٣٠٠٠٠-40000"]
)
def test_another_text_is_no_range_of_ports(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a range of ports"):
        read_port_range(text)
    assert port_range({PORTS_LABEL: text}) == PORTS_DEFAULT == port_range({})


def test_a_range_of_accounts_is_read_and_written() -> None:
    assert read_account_range("") == NO_ACCOUNTS
    assert read_account_range("200000-265535") == range(200_000, 265_536)
    assert account_range_text(read_account_range(ACCOUNTS_DEFAULT)) == ACCOUNTS_DEFAULT
    assert account_range_text(NO_ACCOUNTS) == ""


@pytest.mark.parametrize("text", ["0-9", "1000-2000", "200000", "300000-200000", "70000-70000", "a-b", "1-9999999999"])
def test_accounts_of_the_system_and_of_people_are_not_in_a_range(text: str) -> None:
    with pytest.raises(InvalidInput, match="range of accounts"):
        read_account_range(text)


@pytest.mark.parametrize(
    ("own", "runs"),
    [
        ("process", ["", "process"]),
        ("docker", ["", "docker"]),
        ("fake", ["", "process", "docker"]),
        ("of-a-later-version", ["", "process", "docker"]),
    ],
)
def test_an_agent_runs_images_of_its_own_runtime_and_a_fake_one_simulates_all(own: str, runs: list[str]) -> None:
    labels = {RUNTIME_LABEL: own}
    assert [one for one in ("", "process", "docker") if can_run(labels, one, serves=False)] == runs
    assert [one for one in ("", "process", "docker") if can_run(labels, one, serves=True)] == (
        [] if own == "fake" else runs
    )


def test_an_agent_that_does_not_say_its_runtime_decides_itself() -> None:
    assert can_run({}, "docker", serves=True)


@pytest.mark.parametrize("text", ["", "10.213.0.0/16", "192.168.4.0/24"])
def test_a_range_for_networks_is_private_and_has_room_for_one(text: str) -> None:
    assert read_network_range(text) == text


@pytest.mark.parametrize("text", ["10.213.0.1/16", "8.0.0.0/16", "10.0.0.0/25", "10.0.0.0/7", "fd00::/16", "ten"])
def test_other_ranges_for_networks_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="range"):
        read_network_range(text)
