"""Join tokens of machines, and the grants of agents that have joined."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sokovan.domain.checks import require_int, require_labels, require_slots
from sokovan.domain.cluster.agent import OPERATOR_LABELS_MAX, SYSTEM_PREFIX
from sokovan.domain.cluster.agent_claims import CLAIMED_NAME_MAX, CLAIMS_MAX, AgentClaims
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, checked_name
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

# Join tokens that can be used at once, and the most that are listed: with used ones until they expire.
JOIN_TOKENS_MAX, JOIN_TOKENS_KEPT_MAX = 1000, 2000
# Labels of the accelerators that an agent finds, which it reports together with these devices.
DEVICE_LABELS = frozenset({"nvidia.model", "nvidia.memory-bytes", "nvidia.driver"})
JOIN_TOKEN_S_MIN, JOIN_TOKEN_S_MAX = 1, 7 * 24 * 3600


def join_digest(secret: str) -> str:
    """The stored digest of the secret part of a join token, which is random."""
    return hashlib.sha256(secret.encode()).hexdigest()


class JoinRefused(InvalidInput):
    """A machine was not allowed to join."""

    code = "join-refused"
    hint = "create a new token with sokovan agent token"


class ClaimRefused(InvalidInput):
    """An agent reports what its join token cannot grant, or too much that it does not."""

    code = "claim-refused"
    hint = "stop the agent, and join again on the same machine under the same name, with a token that grants it"


@dataclass(frozen=True, slots=True)
class JoinAddress:
    """The URL that machines join at, and the fingerprint of the certificate authority."""

    url: str
    authority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """The right of one machine to join, once and before `expires_ms`.

    `digest` is that of the secret. `slots` are the most that the agent may report without an
    approval; slots that are not named are not limited if `slots` is empty. `labels` are those
    that it may report. `used_by` is the agent that has used it up; empty: it can be used.
    """

    name: str
    digest: str
    scaling_group: str = DEFAULT_SCALING_GROUP
    slots: ResourceSlot = NO_SLOTS
    labels: Mapping[str, str] = field(default_factory=dict)
    expires_ms: int
    created_by: str = ""
    used_by: str = ""

    def __post_init__(self) -> None:
        checked_name(self.name, what="join token")
        checked_name(self.scaling_group, what="scaling group")
        require_slots(self.slots, what="join token", field="slots")
        require_labels(self.labels, what="join token", most=OPERATOR_LABELS_MAX)
        require_int(self.expires_ms, what="join token", field="expires_ms", least=0)

    def is_usable(self, now_ms: int) -> bool:
        """Whether a machine may still join with it."""
        return not self.used_by and self.expires_ms > now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGrant:
    """The limits of an agent that has joined; `key` is the digest of its public key.

    An approval adds to `slots` and `labels`. `token` is the name of the token that it
    joined with.
    """

    name: str
    key: str
    scaling_group: str = DEFAULT_SCALING_GROUP
    slots: ResourceSlot = NO_SLOTS
    labels: Mapping[str, str] = field(default_factory=dict)
    token: str = ""

    def __post_init__(self) -> None:
        checked_name(self.name, what="agent")
        checked_name(self.scaling_group, what="scaling group")
        require_slots(self.slots, what="agent grant", field="slots")

    def beyond(self, *, scaling_group: str, slots: ResourceSlot, labels: Mapping[str, str]) -> AgentClaims:
        """The claims of an agent: slots and labels that were not granted.

        It reports labels of the system and of its devices without a grant. Raises
        ClaimRefused for another scaling group, and for too many claims.
        """
        if scaling_group != self.scaling_group:
            raise ClaimRefused(f"agent {self.name} may join {self.scaling_group}, not {scaling_group}")
        more = {slot: n for slot, n in slots.items() if n > self.slots[slot]} if self.slots else {}
        others = {
            name: value
            for name, value in labels.items()
            if not name.startswith(SYSTEM_PREFIX) and name not in DEVICE_LABELS and self.labels.get(name) != value
        }
        if any(len(name) > CLAIMED_NAME_MAX for name in others):
            problem = f"reports a label whose name has more than {CLAIMED_NAME_MAX} characters"
            raise ClaimRefused(f"agent {self.name} {problem}")
        claims = AgentClaims(ResourceSlot(more), others)
        if len(claims) > CLAIMS_MAX:
            problem = f"reports {len(claims)} slots and labels that its token does not grant, the most are {CLAIMS_MAX}"
            raise ClaimRefused(f"agent {self.name} {problem}")
        return claims

    def with_claims(self, claims: AgentClaims) -> AgentGrant:
        """The grant after an operator has approved claims."""
        slots = ResourceSlot({**self.slots, **claims.slots}) if self.slots else self.slots
        return replace(self, slots=slots, labels={**self.labels, **claims.labels})
