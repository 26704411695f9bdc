"""The managers of an agent follow what its managers announce."""

from __future__ import annotations

import asyncio

from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link.manager_addresses import ManagerAddresses
from sokovan.agent.link.manager_link import ManagerAddress

A, B, C = (f"wss://10.0.0.{n}:7649" for n in (1, 2, 3))


def addressed(url: str) -> ManagerAddress:
    return ManagerAddress(url, "")


def urls(addresses: ManagerAddresses) -> list[str]:
    return [one.url for one in addresses]


def test_a_manager_that_is_announced_is_added_and_one_that_is_not_is_removed() -> None:
    addresses = ManagerAddresses([addressed(A), addressed(B)], addressed, joined=A)
    [kept, _] = list(addresses)
    addresses.announce(A, (A, C), linked=())
    assert urls(addresses) == [A, C]
    assert next(iter(addresses)) is kept
    addresses.announce(C, (C,), linked=())
    assert urls(addresses) == [A, C], "that which was joined stays"


def test_while_managers_disagree_all_that_any_names_count() -> None:
    addresses = ManagerAddresses([addressed(A), addressed(B)], addressed, joined=A)
    addresses.announce(A, (A, B, C), linked=(A, B))
    addresses.announce(B, (A, B), linked=(A, B))
    assert urls(addresses) == [A, B, C]
    addresses.announce(A, (A, B), linked=(A, B))
    assert urls(addresses) == [A, B]


def test_what_is_no_address_is_left_out_and_an_empty_list_says_nothing() -> None:
    addresses = ManagerAddresses([addressed(A)], addressed, joined=A)
    assert addresses.announce(A, (A, "http://10.0.0.9", C), linked=(A,)) == ["http://10.0.0.9"]
    assert urls(addresses) == [A, C]
    assert addresses.announce(A, (), linked=(A,)) == []
    assert len(addresses) == 2


async def test_an_agent_that_has_not_joined_keeps_its_manager() -> None:
    addresses = ManagerAddresses([addressed(A)])
    addresses.announce(A, (A, B), linked=(A,))
    assert urls(addresses) == [A]
    known = ManagerAddresses([addressed(A)], addressed)
    waiting = asyncio.ensure_future(known.changed())
    known.announce(A, (A,), linked=(A,))
    await SystemClock().sleep(0)
    assert not waiting.done()
    known.announce(A, (A, B), linked=(A,))
    await waiting
