"""Compares the state after a simulation with the expectations."""

from __future__ import annotations

import textwrap

import pytest

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.scheduling.plan import Eviction
from sokovan.simulator.expectations import CHECKS, differences
from sokovan.simulator.scenario import read_scenarios
from sokovan.simulator.simulation import run

# k1 and k2 go to n1, k3 to n2; big never fits; later waits for the kernel that leaves n3. No session can use spare:
# it only makes the cluster larger than the demand.
CLUSTER = textwrap.dedent("""\
    scenario: a bit of everything
    agents:
      n1: {slots: {cpu: 2}}
      n2: {slots: {cpu: 4}}
      n3: {slots: {mem: 1Gi}}
      spare: {slots: {mem: 9Gi}, arch: aarch64}
    hypernodes:
      s0: {tier: 1, members: [n1]}
      s1: {tier: 1, members: [n2, n3]}
      s2: {tier: 2, members: [s0, s1]}
    sessions:
      pair: {kernels: {k1: {slots: {cpu: 1}}, k2: {slots: {cpu: 1}}}}
      one: {kernels: {k3: {slots: {cpu: 3}}}}
      big: {kernels: {k4: {slots: {cpu: 64}}}}
      runs: {kernels: {k5: {slots: {mem: 1Gi}, at: n3, releasing: true}}}
      later: {kernels: {k6: {slots: {mem: 1Gi}}}}
    expect:
""")
PLACED = "placed: {k1: n1, k2: n1, k3: n2}"


def found(expect: str) -> list[str]:
    """The differences from an expectation."""
    [scenario] = read_scenarios(f"{CLUSTER}  {expect}\n", "f.yaml")
    return differences(run(scenario))


@pytest.mark.parametrize(
    "expect",
    [
        PLACED,
        "placed_count: 3",
        "placed_in: {k1: [n1, n2], k3: [n2]}",
        "placed_within: s2",
        "same_hypernode_tier: 2",
        "evicted: []",
        "reserved: {later: [n3]}",
        "pending: [big]",
        "pending: [later]",
        "reason: {big: never_fits}",
        "reason: {big: NEVER, pair: placed}",
    ],
)
def test_an_expectation_that_holds_is_no_difference(expect: str) -> None:
    assert found(expect) == []


@pytest.mark.parametrize(
    ("expect", "difference"),
    [
        ("placed: {k1: n1, k2: n2, k3: n2}", ["placed: k2 is on n1, expected n2"]),
        ("placed: {k1: n1, k2: n1}", ["placed: k3 is on n2, expected no placement"]),
        (PLACED.replace("}", ", k4: n1}"), ["placed: k4 is on no agent, expected n1"]),
        ("placed_in: {k1: [n2, n3]}", ["placed_in: k1 is on n1, expected one of n2, n3"]),
        ("placed_in: {k4: [n1]}", ["placed_in: k4 is on no agent, expected one of n1"]),
        ("placed_within: s0", ["placed_within: k3 is on n2, which is not under s0"]),
        ("evicted: [k5]", ["evicted: k5 was not evicted"]),
        ("reserved: {later: [n1]}", ["reserved: later holds ['n3'], expected ['n1']"]),
        ("reserved: {big: [n1]}", ["reserved: big holds no reservation, expected ['n1']"]),
        ("pending: [pair, big]", ["pending: pair was placed"]),
        ("pending: [runs]", ["pending: runs has no reason"]),
    ],
)
def test_an_expectation_that_does_not_hold_gives_the_difference(expect: str, difference: list[str]) -> None:
    assert found(expect) == difference


def test_nothing_placed_means_that_nothing_may_be_placed() -> None:
    assert found("placed: {}") == [
        "placed: k1 is on n1, expected no placement",
        "placed: k2 is on n1, expected no placement",
        "placed: k3 is on n2, expected no placement",
    ]
    assert found("placed:") == found("placed: {}")


def test_a_wrong_count_is_reported_with_the_placements() -> None:
    assert found("placed_count: 2") == [
        "placed_count: 3 kernels were placed, expected 2: {'k1': 'n1', 'k2': 'n1', 'k3': 'n2'}"
    ]


def test_kernels_that_are_not_as_close_as_expected_give_their_common_hypernode() -> None:
    assert found("same_hypernode_tier: 1") == [
        "same_hypernode_tier: the placed kernels are in s2 of tier 2, expected tier 1"
    ]


def test_closeness_of_nothing_does_not_hold() -> None:
    [scenario] = read_scenarios("scenario: s\nexpect: {same_hypernode_tier: 1}\n", "f.yaml")
    assert differences(run(scenario)) == ["same_hypernode_tier: nothing was placed"]


def test_a_missing_reason_is_reported_with_the_actual_one() -> None:
    [difference] = found("reason: {big: topology}")
    assert difference.startswith("reason: big has the reason 'NEVER_FITS")
    assert difference.endswith("expected 'topology' in it")


def test_all_differences_are_reported_and_not_the_first_only() -> None:
    assert [text.partition(":")[0] for text in found("{placed_count: 9, evicted: [k5], pending: [pair]}".strip())] == [
        "placed_count", "evicted", "pending",
    ]  # fmt: skip


def test_an_unexpected_eviction_is_reported() -> None:
    [scenario] = read_scenarios(f"{CLUSTER}  evicted: []\n", "f.yaml")
    state = run(scenario)
    state.evictions.append(Eviction(KernelId("k5"), SessionId("runs"), AgentId("n3"), SessionId("later")))
    assert differences(state) == ["evicted: k5 was evicted"]


def test_every_expectation_of_the_format_has_its_check() -> None:
    assert set(CHECKS) == {
        "placed", "placed_count", "placed_in", "placed_within", "same_hypernode_tier", "evicted", "reserved",
        "pending", "reason", "lost", "starts_at", "moved",
    }  # fmt: skip
