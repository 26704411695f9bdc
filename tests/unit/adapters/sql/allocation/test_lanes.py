"""How a batch is divided into parts that share no agent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.sql.allocation.lanes import lanes_of
from sokovan.testing.stored_cluster import assignment

AGENTS = st.sampled_from([f"a{number}" for number in range(6)])
BATCHES = st.lists(st.lists(AGENTS, min_size=1, max_size=4), max_size=12).map(
    lambda gangs: [assignment(f"s{number}", *agents) for number, agents in enumerate(gangs)]
)


def test_single_kernels_are_shared_out_by_their_agents() -> None:
    batch = [assignment("s0", "a"), assignment("s1", "b"), assignment("s2", "a"), assignment("s3", "b")]
    assert [[one.session_id for one in lane] for lane in lanes_of(batch, count=2)] == [["s0", "s2"], ["s1", "s3"]]


def test_what_hangs_together_through_a_gang_stays_together() -> None:
    batch = [assignment("s0", "a"), assignment("s1", "b"), assignment("gang", "a", "b")]
    assert lanes_of(batch, count=2) == [batch]


@given(BATCHES, st.integers(1, 4))
def test_lanes_share_no_agent_lose_nobody_and_keep_the_order(batch: list, count: int) -> None:  # type: ignore[type-arg]  # drawn above
    lanes = lanes_of(batch, count=count)
    agents = [{agent for one in lane for _, agent in one.kernels} for lane in lanes]
    assert len(lanes) <= count
    assert sum(len(some) for some in agents) == len(set().union(*agents))
    assert sorted(one.session_id for lane in lanes for one in lane) == sorted(one.session_id for one in batch)
    for lane in lanes:
        assert [one for one in batch if one in lane] == lane
