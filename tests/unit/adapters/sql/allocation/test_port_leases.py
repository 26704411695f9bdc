"""Leases of ports: fixed ones conflict with themselves, others need a free one."""

from __future__ import annotations

from sokovan.adapters.sql.allocation.port_leases import PortLeases


def test_a_fixed_port_is_leased_once() -> None:
    leases = PortLeases()
    assert leases.take({"web": 8080}) == {"web": 8080}
    assert leases.take({"web": 8080}) is None
    assert leases.take({"web": 8081}) == {"web": 8081}


def test_any_port_is_the_lowest_free_one_of_the_range() -> None:
    leases = PortLeases(offered=range(100, 103), taken={100})
    assert leases.take({"a": 0, "b": 0}) == {"a": 101, "b": 102}
    assert leases.take({"c": 0}) is None
    leases.put_back([101])
    assert leases.take({"c": 0}) == {"c": 101}


def test_a_request_that_is_not_met_leases_nothing() -> None:
    leases = PortLeases(offered=range(100, 101), taken={8080})
    assert leases.take({"any": 0, "web": 8080}) is None
    assert leases.take({"a": 0, "b": 0}) is None
    assert leases.taken == {8080}


def test_a_fixed_port_of_the_range_is_not_given_to_another_name() -> None:
    assert PortLeases(offered=range(100, 102)).take({"any": 0, "fixed": 100}) == {"any": 101, "fixed": 100}
