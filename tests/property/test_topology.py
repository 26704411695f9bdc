"""HyperNode trees on random networks, against a model that follows members upwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.topology import ROOT, HyperNodeTree
from tests.property.strategies import Network, networks


@st.composite
def networks_with_names(draw: st.DrawFn, count: int) -> tuple[Network, list[str]]:
    """A network and some of its names, agents and HyperNodes alike."""
    network = draw(networks())
    return network, [draw(st.sampled_from(network.names)) for _ in range(count)]


@st.composite
def networks_with_agents(draw: st.DrawFn) -> tuple[Network, list[str]]:
    """A network and some of its agents."""
    network = draw(networks())
    return network, draw(st.lists(st.sampled_from(network.agents), min_size=1))


@given(networks_with_names(1))
def test_the_ancestors_of_a_name_are_those_above_it_with_rising_tiers(drawn: tuple[Network, list[str]]) -> None:
    network, (name,) = drawn
    tree = network.tree
    assert [name, *tree.ancestors(name)] == network.line(name)
    tiers = [tree.tier(each) for each in network.line(name)]
    assert tiers == sorted(set(tiers))


@given(networks(agents_min=0))
def test_every_hypernode_is_one_contiguous_span_of_exactly_its_agents(network: Network) -> None:
    tree = network.tree
    assert sorted(tree.agents) == sorted(network.agents)
    for name in network.names:
        start, stop = tree.span(name)
        assert set(tree.agents[start:stop]) == network.agents_below(name)
        assert stop - start == len(network.agents_below(name))
        assert tree.agents_under(name) == tree.agents[start:stop]


@given(networks(agents_min=0))
def test_the_spans_of_the_children_fill_the_span_of_their_parent_in_order(network: Network) -> None:
    tree = network.tree
    for name in (ROOT, *(node.name for node in network.hypernodes)):
        ends = [tree.span(child) for child in tree.children(name)]
        start, stop = tree.span(name)
        assert [low for low, _ in ends] + [stop] == [start] + [high for _, high in ends]


@pytest.mark.slow
@given(networks_with_agents())
def test_the_domain_of_agents_is_the_lowest_hypernode_that_holds_them_all(drawn: tuple[Network, list[str]]) -> None:
    network, agents = drawn
    above_first = network.line(agents[0])[1:]
    holding = [name for name in above_first if set(agents) <= network.agents_below(name)]
    assert network.tree.domain_of(agents) == holding[0]


@st.composite
def shuffled_networks(draw: st.DrawFn) -> tuple[Network, HyperNodeTree]:
    """A network, and the tree that is built when its parts are given in another order."""
    network = draw(networks())
    agents, hypernodes = draw(st.permutations(network.agents)), draw(st.permutations(network.hypernodes))
    return network, HyperNodeTree(agents, hypernodes)


@given(shuffled_networks())
def test_the_order_in_which_a_network_is_given_changes_nothing(drawn: tuple[Network, HyperNodeTree]) -> None:
    network, shuffled = drawn
    assert shuffled.agents == network.tree.agents
    assert [shuffled.span(name) for name in network.names] == [network.tree.span(name) for name in network.names]
