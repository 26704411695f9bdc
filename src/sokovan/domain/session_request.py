"""Requested sessions, before their scaling group, images and slots are resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sokovan.domain.arrays import ArrayRequest
from sokovan.domain.owners.tenancy import Owner, Role
from sokovan.domain.session import EndPolicy, SessionOptions, SessionType

# An amount as users write it: 4, 0.5, "16GiB".
Amount = int | float | str
_OPTIONS = tuple(one.name for one in fields(SessionOptions))


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated principal of a request."""

    owner: Owner
    role: Role = Role.USER
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroupRequest:
    """A group of equal kernels; None means the value of the session."""

    name: str = ""
    size: int = 1
    minimum: int | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Amount] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    require: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    nominated: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest(SessionOptions):
    """A requested session; None and empty values are resolved by the preparer.

    The options that it shares with the spec are kept unchanged (`options`). `groups` empty
    means `size` equal kernels: kernel 0 is main, the others are sub. `group` is the
    project that the session is accounted to. `secrets` are variables of all kernels; they are
    sealed before the session is stored, and no part of its spec.
    """

    session_type: SessionType = SessionType.BATCH
    image: str = ""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    resources: Mapping[str, Amount] = field(default_factory=dict)
    size: int = 1
    minimum: int | None = None
    groups: tuple[KernelGroupRequest, ...] = ()
    require: Mapping[str, str] = field(default_factory=dict)
    nominated: str = ""
    architecture: str = ""
    scaling_group: str = ""
    queue: str = ""
    group: str = ""
    depends_on: tuple[str, ...] = ()
    ends_with: EndPolicy | None = None
    array: ArrayRequest | None = None

    def options(self) -> dict[str, Any]:
        """The values of all SessionOptions, by name."""
        return {name: getattr(self, name) for name in _OPTIONS}
