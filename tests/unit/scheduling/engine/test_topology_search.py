"""TopologySearch: HyperNodes by tier that hold a demand, the fullest first."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.topology_limits import TierLimit
from sokovan.scheduling.engine.topology_search import TopologySearch
from tests.unit.scheduling.engine.builders import EngineParts, agent, hard, rack, soft

HALLS = (
    rack("r1", "a1", "a2", tier_name="rack"),
    rack("r2", "a3", "a4", tier_name="rack"),
    rack("r3", "a5", "a6", tier_name="rack"),
    rack("h1", "r1", "r2", tier=2, tier_name="hall"),
    rack("h2", "r3", tier=2, tier_name="hall"),
)


def machines(**used: str) -> list[AgentInfo]:
    return [agent(f"a{index}", "cpu=4", used=used.get(f"a{index}", "")) for index in range(1, 7)]


def halls(**used: str) -> tuple[EngineParts, TopologySearch]:
    engine = EngineParts(*machines(**used), hypernodes=HALLS)
    return engine, TopologySearch(engine.workspace)


def names(
    domains: TopologySearch, bounds: TierLimit, *, inside: str = ROOT, agents: tuple[int, ...] = ()
) -> list[list[str]]:
    return [list(tier.names) for tier in domains.tiers(bounds, inside=inside, agents=agents)]


def candidates(
    engine: EngineParts, domains: TopologySearch, slots: str, count: int, *, tier: int = 0, **how: bool
) -> list[str]:
    demand = [(engine.shape(slots), count)]
    tiers = domains.tiers(TierLimit(9), inside=ROOT, agents=())
    return domains.candidates(tiers[tier], demand, whole=how.get("whole", True), later=how.get("later", False))


def test_without_a_topology_or_with_a_soft_one_a_search_may_use_the_root() -> None:
    _, domains = halls()
    assert domains.tier_limit(None) == domains.tier_limit(soft()) == TierLimit(3)


@pytest.mark.parametrize(("highest", "tier"), [(1, 1), (2, 2), (3, 3), (None, 2), ("rack", 1), ("hall", 2)])
def test_a_hard_topology_names_the_highest_tier_by_number_or_name_the_root_by_the_number_above(
    highest: int | str | None, tier: int
) -> None:
    _, domains = halls()
    assert domains.tier_limit(hard(highest)) == TierLimit(tier)


def test_a_hard_topology_that_names_no_tier_fails_closed() -> None:
    _, domains = halls()
    assert domains.tier_limit(hard("pod")) == TierLimit(0, "there is no tier named pod; known are hall, rack")
    assert domains.tier_limit(hard("rak")) == TierLimit(0, "there is no tier named rak; did you mean rack?")
    assert domains.tier_limit(hard(4)) == TierLimit(0, "there is no tier 4; the whole cluster is tier 3")


def test_a_hard_topology_without_hypernodes_fails_closed() -> None:
    domains = TopologySearch(EngineParts(*machines()).workspace)
    assert domains.tier_limit(hard(1)) == TierLimit(
        0, "a hard topology needs HyperNodes, and its scaling group has none"
    )


def test_tiers_come_lowest_first_up_to_the_bound() -> None:
    _, domains = halls()
    assert names(domains, TierLimit(1)) == [["r1", "r2", "r3"]]
    assert names(domains, TierLimit(3)) == [["r1", "r2", "r3"], ["h1", "h2"], [ROOT]]
    assert names(domains, TierLimit(0)) == []


def test_inside_a_hypernode_only_what_lies_under_it_is_searched() -> None:
    _, domains = halls()
    assert names(domains, TierLimit(3), inside="h1") == [["r1", "r2"], ["h1"]]
    assert names(domains, TierLimit(1), inside="r3") == [["r3"]]


def test_a_session_that_runs_in_part_considers_only_hypernodes_above_it() -> None:
    engine, domains = halls()
    assert names(domains, TierLimit(3), agents=(engine.row("a3"),)) == [["r2"], ["h1"], [ROOT]]
    assert names(domains, TierLimit(3), agents=(engine.row("a3"), engine.row("a1"))) == [["h1"], [ROOT]]
    assert names(domains, TierLimit(2), agents=(engine.row("a1"), engine.row("a6"))) == []


def test_a_kernel_on_an_unknown_agent_does_not_limit_the_search() -> None:
    _, domains = halls()
    assert names(domains, TierLimit(1), agents=(-1,)) == [["r1", "r2", "r3"]]


def test_the_root_is_anywhere() -> None:
    _, domains = halls()
    assert domains.root().names == (ROOT,)
    assert domains.agents(ROOT) == range(6)
    assert domains.agents("r2") == range(2, 4)


def test_only_domains_with_room_for_the_whole_demand_are_candidates_the_fullest_first() -> None:
    engine, domains = halls(a1="cpu=1", a3="cpu=3", a5="cpu=4", a6="cpu=4")
    assert candidates(engine, domains, "cpu=1", 5) == ["r2", "r1"]
    assert candidates(engine, domains, "cpu=1", 6) == ["r1"]
    assert candidates(engine, domains, "cpu=1", 9) == []
    assert candidates(engine, domains, "cpu=1", 9, tier=1) == ["h1"]


def test_room_in_total_is_no_room_where_no_agent_holds_a_kernel() -> None:
    engine, domains = halls(a1="cpu=2", a2="cpu=2")
    assert candidates(engine, domains, "cpu=4", 1) == ["r2", "r3"]


def test_of_equally_full_domains_the_first_by_name_comes_first() -> None:
    engine, domains = halls()
    assert candidates(engine, domains, "cpu=1", 1) == ["r1", "r2", "r3"]


def test_an_elastic_demand_tries_every_domain_because_only_an_attempt_can_show() -> None:
    engine, domains = halls(a5="cpu=4", a6="cpu=4")
    assert candidates(engine, domains, "cpu=1", 100, whole=False) == ["r3", "r1", "r2"]


def test_what_is_being_released_counts_for_later_only() -> None:
    leaving = agent("a1", "cpu=4", used="cpu=4", leaving="cpu=4")
    engine = EngineParts(leaving, *machines()[1:], hypernodes=HALLS)
    domains = TopologySearch(engine.workspace)
    assert candidates(engine, domains, "cpu=1", 8) == ["r2", "r3"]
    assert candidates(engine, domains, "cpu=1", 8, later=True) == ["r1", "r2", "r3"]


def test_candidates_follow_what_is_placed_in_the_meantime() -> None:
    engine, domains = halls()
    assert candidates(engine, domains, "cpu=1", 8) == ["r1", "r2", "r3"]
    engine.place("cpu=1", "a4")
    assert candidates(engine, domains, "cpu=1", 8) == ["r1", "r3"]
    assert candidates(engine, domains, "cpu=1", 7) == ["r2", "r1", "r3"]


def test_every_shape_of_a_demand_must_find_room() -> None:
    engine = EngineParts(
        agent("a1", "cpu=4"), agent("a2", "cpu=4 cuda.device=1"), hypernodes=(rack("r1", "a1"), rack("r2", "a2"))
    )
    domains = TopologySearch(engine.workspace)
    tier = domains.tiers(TierLimit(1), inside=ROOT, agents=())[0]
    demand = [(engine.shape("cpu=1"), 2), (engine.shape("cuda.device=1"), 1)]
    assert domains.candidates(tier, demand, whole=True, later=False) == ["r2"]


def test_fullness_of_large_memories_is_still_compared_exactly_enough() -> None:
    engine = EngineParts(
        agent("a1", "mem=8192Ti", used="mem=1Ti"), agent("a2", "mem=8192Ti", used="mem=2Ti"),
        hypernodes=(rack("r1", "a1"), rack("r2", "a2")),
    )  # fmt: skip
    assert candidates(engine, TopologySearch(engine.workspace), "mem=1Gi", 1) == ["r2", "r1"]


def test_a_demand_that_no_empty_domain_could_hold_differs_from_one_that_waits() -> None:
    engine, domains = halls(a1="cpu=4", a2="cpu=4", a3="cpu=4", a4="cpu=4", a5="cpu=4", a6="cpu=4")
    tiers = domains.tiers(TierLimit(1), inside=ROOT, agents=())
    assert domains.could_ever(tiers, [(engine.shape("cpu=1"), 8)])
    assert not domains.could_ever(tiers, [(engine.shape("cpu=1"), 9)])
    assert not domains.could_ever([], [(engine.shape("cpu=1"), 1)])


def test_the_domain_that_holds_most_now_is_named_with_the_number() -> None:
    engine, domains = halls(a1="cpu=2", a3="cpu=1", a5="cpu=3")
    tiers = domains.tiers(TierLimit(1), inside=ROOT, agents=())
    assert domains.most_that_fit(tiers, [(engine.shape("cpu=1"), 8)]) == (7, "r2")
    assert domains.most_that_fit(tiers, [(engine.shape("cpu=1"), 5)]) == (5, "r1")
    assert domains.most_that_fit(tiers, [(engine.shape("cpu=9"), 1)]) == (0, "")
    assert domains.most_that_fit(tiers, [(engine.shape("cpu=1"), 1), (engine.shape("cpu=1"), 7)]) == (7, "r2")


def test_each_tier_says_how_many_hypernodes_could_hold_a_demand() -> None:
    engine, domains = halls(a1="cpu=2", a3="cpu=1", a5="cpu=3")
    rooms = domains.rooms(domains.tiers(TierLimit(3), inside=ROOT, agents=()), [(engine.shape("cpu=1"), 8)])
    assert [(one.hypernodes, one.could_ever_fit) for one in rooms] == [(3, 3), (2, 2), (1, 1)]
    assert rooms[0].fits_now == 0
    assert rooms[0].sentence() == "HyperNodes 3 → could ever fit 3 → fits now 0; r2 has room for 7 kernels"
    assert rooms[-1].tier == "whole cluster"
    assert rooms[-1].sentence().endswith("; room for 8 kernels")
