"""Taints of agents, and tolerations of sessions.

A taint keeps every session that does not tolerate it off an agent. It is stored as a
label of the agent under a prefix that only taints have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sokovan.domain.constraints.labels import require_label
from sokovan.domain.errors import InvalidSpec

TAINT_PREFIX = "sokovan.taint/"
TOLERATIONS_MAX = 16
# The only effect: sessions are kept off, and kernels that run already stay.
NO_SCHEDULE = "NoSchedule"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A mark on an agent that keeps sessions off it. Valid by construction."""

    key: str
    value: str = ""

    def __post_init__(self) -> None:
        require_label(self.key, self.value, what="taint", field="key", hint="write KEY or KEY=VALUE")

    def __str__(self) -> str:
        return f"{self.key}={self.value}" if self.value else self.key

    @property
    def label(self) -> str:
        """The name of the agent label that holds it."""
        return TAINT_PREFIX + self.key


@dataclass(frozen=True, slots=True)
class Toleration:
    """Permission to use agents with a taint: with this value, or None for any value."""

    key: str
    value: str | None = None

    def __post_init__(self) -> None:
        hint = "write KEY for any value, or KEY=VALUE"
        require_label(self.key, self.value or "", what="toleration", field="key", hint=hint)

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}={self.value}"

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint does not keep the session off."""
        return self.key == taint.key and self.value in {None, taint.value}


def taints_of(labels: Mapping[str, str]) -> tuple[Taint, ...]:
    """The taints among the labels of an agent, sorted."""
    if not labels:
        return ()
    found = []
    for name, value in labels.items():
        if name.startswith(TAINT_PREFIX) and len(name) > len(TAINT_PREFIX):
            try:
                found.append(Taint(name.removeprefix(TAINT_PREFIX), value))
            except InvalidSpec:
                # An agent reports its own labels; one that cannot be read must not open it to everybody.
                found.append(Taint("invalid"))
    return tuple(sorted(set(found)))


def without_taints(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of an agent that are not taints."""
    return {name: value for name, value in labels.items() if not name.startswith(TAINT_PREFIX)}


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> list[Taint]:
    """The taints that keep a session with these tolerations off."""
    allowed = tuple(tolerations)
    return [taint for taint in taints if not any(one.tolerates(taint) for one in allowed)]


def changed_taints(labels: Mapping[str, str], added: Iterable[Taint], removed: Iterable[Taint]) -> dict[str, str]:
    """The labels of an agent after a change of its taints. Raises InvalidSpec."""
    changed, keys = dict(labels), set[str]()
    for taint, stays in (*((one, True) for one in added), *((one, False) for one in removed)):
        if taint.key in keys:
            raise InvalidSpec(what="agent", field="taints", value=taint.key, problem="is given twice")
        keys.add(taint.key)
        if stays:
            changed[taint.label] = taint.value
        elif changed.pop(taint.label, None) is None:
            raise InvalidSpec(what="agent", field="taints", value=taint.key, problem="is not a taint of the agent")
    return changed


def read_taint(text: str) -> Taint:
    """Read KEY[=VALUE][:NoSchedule]; there is no other effect. Raises InvalidSpec.

    >>> read_taint("dedicated=ml:NoSchedule") == read_taint("dedicated=ml")
    True
    """
    name, colon, effect = text.partition(":")
    if colon and effect != NO_SCHEDULE:
        problem = f"is not an effect; the only one is {NO_SCHEDULE}"
        hint = f"write KEY=VALUE or KEY=VALUE:{NO_SCHEDULE}; a taint never ends kernels that run"
        raise InvalidSpec(what="taint", field="effect", value=effect, problem=problem, hint=hint)
    key, _, value = name.partition("=")
    return Taint(key, value)


def read_toleration(text: str) -> Toleration:
    """Read KEY (any value) or KEY=VALUE. Raises InvalidSpec.

    >>> read_toleration("dedicated=ml").tolerates(read_taint("dedicated=ml"))
    True
    """
    key, equals, value = text.partition("=")
    return Toleration(key, value if equals else None)
