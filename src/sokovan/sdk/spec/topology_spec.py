"""Topology files: tiers, the closest first, and listed HyperNodes.

Example:
    tiers: [nvlink, rack, {name: zone}]
    hypernodes:
      - {name: z1, tier: zone, members: [r01, r02]}
"""

from __future__ import annotations

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec import fields
from sokovan.sdk.spec.spec_yaml import read_nodes, spec_error
from sokovan.wire.api.topology import HyperNodeBody, TierBody, TopologyBody
from sokovan.yaml_reader import YamlNode

_EXAMPLE = "write tiers: [rack, zone], or see docs/howto/topology.md"


def read_topology_file(text: str, file: str) -> TopologyBody:
    """The topology of a file. Raises InvalidSpecFile."""
    try:
        return _topology(text, file)
    except InvalidSpecFile as error:
        if error.hint == InvalidSpecFile.hint:  # that of session files
            error.hint = _EXAMPLE
        raise


def _topology(text: str, file: str) -> TopologyBody:
    nodes = read_nodes(text, file)
    if len(nodes) != 1:
        raise InvalidSpecFile(f"{file}: the file has {len(nodes)} documents, not one")
    entries = fields.entries_of(nodes[0], ("tiers", "hypernodes"), what="a topology")
    if "tiers" not in entries:
        raise spec_error(nodes[0].position, "a topology needs the key 'tiers'")
    tiers = fields.list_of(_tier, what="tiers")(entries["tiers"])
    if not tiers:
        raise spec_error(entries["tiers"].position, "a topology needs a tier", hint="sokovan topology rm removes it")
    _refuse_repeated(entries["tiers"], [tier.name for tier in tiers], "tier")
    listed: list[HyperNodeBody] = []
    if "hypernodes" in entries:
        listed = fields.list_of(_hypernode, what="HyperNodes")(entries["hypernodes"])
        _refuse_repeated(entries["hypernodes"], [node.name for node in listed], "HyperNode")
        _refuse_unknown_tiers(entries["hypernodes"], listed, [tier.name for tier in tiers])
    return TopologyBody(tiers=tiers, hypernodes=listed)


def _tier(node: YamlNode) -> TierBody:
    """A tier; a plain name is also the name of its label."""
    if node.kind != "mapping":
        name = fields.text(node)
        return TierBody(name=name, label=name)
    entries = fields.entries_of(node, ("name", "label"), what="a tier")
    if "name" not in entries:
        raise spec_error(node.position, "a tier needs the key 'name'")
    label = fields.text(entries["label"]) if "label" in entries else None
    return TierBody(name=fields.text(entries["name"]), label=label)


def _hypernode(node: YamlNode) -> HyperNodeBody:
    keys = ("name", "tier", "members")
    entries = fields.entries_of(node, keys, what="a HyperNode")
    for key in keys:
        if key not in entries:
            raise spec_error(node.position, f"a HyperNode needs the key {key!r}")
    name, tier, members = (entries[key] for key in keys)
    return HyperNodeBody(name=fields.text(name), tier=fields.text(tier), members=fields.words(members))


def _refuse_repeated(node: YamlNode, names: list[str], what: str) -> None:
    seen: set[str] = set()
    for item, name in zip(node.items, names, strict=True):
        if name in seen:
            raise spec_error(item.position, f"the {what} {name[:60]!r} is given twice")
        seen.add(name)


def _refuse_unknown_tiers(node: YamlNode, listed: list[HyperNodeBody], tiers: list[str]) -> None:
    for item, hypernode in zip(node.items, listed, strict=True):
        if hypernode.tier not in tiers:
            problem = f"there is no tier {hypernode.tier[:60]!r}"
            raise spec_error(item.entries["tier"].position, problem, hint=f"the tiers are {', '.join(tiers)}")
