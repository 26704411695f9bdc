"""Topology files."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec.topology_spec import read_topology_file
from sokovan.wire.api.topology import HyperNodeBody, TierBody, TopologyBody

FILE = """
tiers: [nvlink, {name: rack, label: site/rack}, {name: zone}]
hypernodes:
  - {name: z1, tier: zone, members: [r01, 7]}
"""


def test_a_file_has_tiers_and_listed_hypernodes() -> None:
    tiers = [TierBody(name="nvlink", label="nvlink"), TierBody(name="rack", label="site/rack"), TierBody(name="zone")]
    listed = [HyperNodeBody(name="z1", tier="zone", members=["r01", "7"])]
    assert read_topology_file(FILE, "t.yaml") == TopologyBody(tiers=tiers, hypernodes=listed)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has 0 documents"),
        ("tiers: []\n---\ntiers: []", "has 2 documents"),
        ("tiers: []", "t.yaml:1:8: a topology needs a tier"),
        ("[]", "a topology must be a mapping"),
        ("hypernodes: []", "needs the key 'tiers'"),
        ("tires: []", "did you mean 'tiers'"),
        ("tiers: rack", "a list of tiers"),
        ("tiers: [{label: rack}]", "needs the key 'name'"),
        ("tiers: [{name: rack, tier: 1}]", "has no key 'tier'"),
        ("tiers: [rack, rack]", "t.yaml:1:15: the tier 'rack' is given twice"),
        ("tiers: [rack]\nhypernodes: [{name: r1, tier: rack}]", "needs the key 'members'"),
        ("tiers: [rack]\nhypernodes: [{name: r1, tier: pod, members: [a]}]", "there is no tier 'pod'"),
        (
            "tiers: [rack]\nhypernodes: [{name: r, tier: rack, members: [a]}, {name: r, tier: rack, members: [b]}]",
            "the HyperNode 'r' is given twice",
        ),
    ],
)
def test_a_mistake_is_shown_with_its_position(text: str, problem: str) -> None:
    with pytest.raises(InvalidSpecFile) as caught:
        read_topology_file(text, "t.yaml")
    assert problem in caught.value.message
    assert "sokovan help spec" not in caught.value.hint
