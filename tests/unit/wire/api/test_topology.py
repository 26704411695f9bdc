"""The topology on the wire."""

from __future__ import annotations

from sokovan.wire.api.topology import LabelsBody, TopologyBody
from tests.unit.wire.api.bodies import read_by_both, refused


def test_a_topology_has_tiers_and_may_list_hypernodes() -> None:
    body = read_by_both(TopologyBody, {"tiers": [{"name": "rack", "label": "rack"}]})
    assert body.hypernodes == []
    assert body.tiers[0].label == "rack"


def test_misspelt_keys_are_refused() -> None:
    assert "racks" in refused(TopologyBody, {"tiers": [], "racks": []})
    assert "delete" in refused(LabelsBody, {"set": {}, "delete": []})
