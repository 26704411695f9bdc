"""AffinityTerm: other sessions that a session runs near to, or apart from.

A term selects sessions of the same group (project) by their labels, and says how near
counts as near: on the same agent, or under the same HyperNode of a tier. Sessions of other
groups are never matched, so that no user can keep other groups off an agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sokovan.domain.checks import require_int, require_tuple
from sokovan.domain.constraints.labels import require_label
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import checked_name

TERMS_MAX = 8
LABELS_PER_TERM_MAX = 8
AGENT = "agent"
_HINT = "write 'NAME=VALUE' for the same agent, or 'NAME=VALUE within TIER'"
_TERM = re.compile(r"(\S+)(?:\s+within\s+(\S+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Sessions with all of these labels, `within` an agent or a HyperNode tier.

    Valid by construction; the labels are sorted, so that equal terms compare equal.
    """

    labels: tuple[tuple[str, str], ...]
    within: int | str = AGENT

    def __post_init__(self) -> None:
        what = "affinity"
        require_tuple(self.labels, tuple, what=what, field="labels")
        if not 1 <= len(self.labels) <= LABELS_PER_TERM_MAX or list(self.labels) != sorted(set(self.labels)):
            problem = f"must be 1 to {LABELS_PER_TERM_MAX} labels, sorted, each once"
            raise InvalidSpec(what=what, field="labels", value=self.labels, problem=problem, hint=_HINT)
        for name, value in self.labels:
            require_label(name, value, what=what, field="labels", hint=_HINT)
        if isinstance(self.within, str):
            checked_name(self.within, what="tier")
        else:
            require_int(self.within, what=what, field="within", least=1)

    def __str__(self) -> str:
        labels = ",".join(f"{name}={value}" for name, value in self.labels)
        return labels if self.within == AGENT else f"{labels} within {self.within}"

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a session with these labels is meant."""
        return all(labels.get(name) == value for name, value in self.labels)


def read_affinity(text: str) -> AffinityTerm:
    """Read `app=db`, `app=db,stage=prod` or `app=db within rack`. Raises InvalidSpec.

    >>> str(read_affinity("stage=prod,app=db within rack"))
    'app=db,stage=prod within rack'
    """
    found = _TERM.fullmatch(text.strip())
    pairs = [part.partition("=") for part in found[1].split(",")] if found is not None else []
    if found is None or not all(equals for _, equals, _ in pairs):
        problem = "does not name labels of other sessions"
        raise InvalidSpec(what="affinity", field="text", value=text, problem=problem, hint=_HINT)
    labels = tuple(sorted({(name, value) for name, _, value in pairs}))
    within = found[2] or AGENT
    is_number = within.isascii() and within.isdigit() and len(within) < 10
    return AffinityTerm(labels, int(within) if is_number else within)
