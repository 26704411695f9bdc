"""Join tokens of machines, and the grants of agents that have joined."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sokovan.domain.checks import require_int, require_slots
from sokovan.domain.cluster.agent import SYSTEM_PREFIX
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, checked_name
from sokovan.domain.slot_notation import format_amount
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

# Join tokens that are valid at once.
JOIN_TOKENS_MAX = 1000
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
    """An agent reports more than its join token granted."""

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

    `digest` is that of the secret. `slots` are the most that the agent may report; slots
    that are not named are not limited if `slots` is empty, and refused otherwise.
    """

    name: str
    digest: str
    scaling_group: str = DEFAULT_SCALING_GROUP
    slots: ResourceSlot = NO_SLOTS
    expires_ms: int

    def __post_init__(self) -> None:
        checked_name(self.name, what="join token")
        checked_name(self.scaling_group, what="scaling group")
        require_slots(self.slots, what="join token", field="slots")
        require_int(self.expires_ms, what="join token", field="expires_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGrant:
    """The limits of an agent that has joined; `key` is the digest of its public key."""

    name: str
    key: str
    scaling_group: str = DEFAULT_SCALING_GROUP
    slots: ResourceSlot = NO_SLOTS

    def __post_init__(self) -> None:
        checked_name(self.name, what="agent")
        checked_name(self.scaling_group, what="scaling group")
        require_slots(self.slots, what="agent grant", field="slots")

    def require_claim(self, *, scaling_group: str, slots: ResourceSlot, labels: Mapping[str, str]) -> None:
        """Check what the agent reports. Raises ClaimRefused.

        Labels are set by operators: an agent that has joined reports those of the system and
        of its devices only.
        """
        if scaling_group != self.scaling_group:
            raise ClaimRefused(f"agent {self.name} may join {self.scaling_group}, not {scaling_group}")
        for slot, amount in slots.items() if self.slots else ():
            if amount > self.slots[slot]:
                most, found = format_amount(slot, self.slots[slot]), format_amount(slot, amount)
                raise ClaimRefused(f"agent {self.name} may report at most {slot}={most}, it reports {found}")
        extra = sorted(name for name in labels if not name.startswith(SYSTEM_PREFIX) and name not in DEVICE_LABELS)
        if extra:
            raise ClaimRefused(
                f"agent {self.name} reports the label {extra[0]}, which its token does not grant",
                hint=f"set it on the manager: sokovan agent label {self.name} {extra[0]}=...",
            )
