"""The kernels of a request as groups of equal kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sokovan.orchestrator.sessions.intake.images import HOST
from sokovan.orchestrator.sessions.intake.requests import Amount, SessionRequest

MAIN = "main"
SUB = "sub"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroup:
    """A group of equal kernels; unset values are inherited from the session.

    `where` is the path prefix of its values, except of those it `inherits`.
    """

    where: str
    inherits: frozenset[str] = frozenset()
    name: str
    size: int
    minimum: int | None
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    resources: Mapping[str, Amount]
    labels: Mapping[str, str]
    require: Mapping[str, str]

    def place(self, field: str) -> str:
        """The path of a field: the group's own, or the session's if it is inherited."""
        return field if field in self.inherits else f"{self.where}{field}"


def kernel_groups(request: SessionRequest) -> tuple[KernelGroup, ...]:
    """The groups of a request; without groups, one unnamed group of `size` kernels."""
    return tuple(_listed(request)) or (_single(request),)


def roles(group: KernelGroup) -> Iterator[str]:
    """The role of each kernel: the group's name, else main for the first and sub."""
    for index in range(group.size):
        yield group.name or (SUB if index else MAIN)


def _single(request: SessionRequest) -> KernelGroup:
    return KernelGroup(
        where="",
        name="",
        size=request.size,
        minimum=request.minimum,
        image=request.image or HOST,
        command=request.command,
        environment=request.environment,
        resources=request.resources,
        labels=request.labels,
        require=request.require,
    )


def _listed(request: SessionRequest) -> Iterator[KernelGroup]:
    for index, group in enumerate(request.groups):
        yield KernelGroup(
            where=f"groups/{index}/",
            inherits=frozenset(field for field in ("image", "command", "resources") if getattr(group, field) is None),
            name=group.name,
            size=group.size,
            minimum=group.minimum,
            image=(request.image if group.image is None else group.image) or HOST,
            command=request.command if group.command is None else group.command,
            environment={**request.environment, **group.environment},
            resources=request.resources if group.resources is None else group.resources,
            labels={**request.labels, **group.labels},
            require={**request.require, **group.require},
        )
