"""The kernels of a request as groups of equal kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sokovan.domain.cluster.image import HOST_IMAGE
from sokovan.domain.session_request import Amount, KernelGroupRequest, SessionRequest

MAIN = "main"
SUB = "sub"
# Values of a group that default to those of the session, and those that extend them.
INHERITED = frozenset({"image", "command", "resources", "nominated"})
MERGED = frozenset({"environment", "labels", "require"})
_NAMES = tuple(one.name for one in fields(KernelGroupRequest))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroup(KernelGroupRequest):
    """A group of equal kernels with the values it inherits from the session.

    `where` is the path prefix of its values, except of those it `inherits`.
    """

    image: str
    command: tuple[str, ...]
    resources: Mapping[str, Amount]
    where: str = ""
    inherits: frozenset[str] = frozenset()

    def place(self, field: str) -> str:
        """The path of a field: the group's own, or the session's if it is inherited."""
        return field if field in self.inherits else f"{self.where}{field}"


def kernel_groups(request: SessionRequest) -> tuple[KernelGroup, ...]:
    """The groups of a request; without groups, one unnamed group of `size` kernels."""
    if not request.groups:
        return (_inherited(request, KernelGroupRequest(size=request.size, minimum=request.minimum), ""),)
    return tuple(_inherited(request, group, f"groups/{index}/") for index, group in enumerate(request.groups))


def roles(group: KernelGroup) -> Iterator[str]:
    """The role of each kernel: the group's name, else main for the first and sub."""
    for index in range(group.size):
        yield group.name or (SUB if index else MAIN)


def _inherited(request: SessionRequest, group: KernelGroupRequest, where: str) -> KernelGroup:
    """The group with the session's values where it has none; mappings are merged."""
    values: dict[str, Any] = {name: getattr(group, name) for name in _NAMES}
    inherits = frozenset(name for name, value in values.items() if value is None and name in INHERITED)
    values.update({name: getattr(request, name) for name in inherits})
    values.update({name: {**getattr(request, name), **values[name]} for name in MERGED})
    return KernelGroup(**{**values, "image": values["image"] or HOST_IMAGE}, where=where, inherits=inherits)
