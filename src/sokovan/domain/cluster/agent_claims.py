"""Claims of an agent beyond its grant, which wait for an operator's approval.

They are kept as labels under a prefix that only the system writes, beside those of
operators, so that they are stored, read and changed with them, by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.checks import LABEL_TEXT_MAX
from sokovan.domain.slot_notation import format_amount
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

# The label of an agent that gets no kernels until its claims are approved: how many there are.
UNAPPROVED_LABEL = "sokovan.unapproved"
CLAIM_PREFIX = "sokovan.claim/"
_SLOT, _LABEL = f"{CLAIM_PREFIX}slot/", f"{CLAIM_PREFIX}label/"
# Claims of one agent; one with more of them is refused.
CLAIMS_MAX = 32
# Labels that hold them.
MARKS_MAX = CLAIMS_MAX + 1
# The name of a claimed label, so that the label that holds it is one.
CLAIMED_NAME_MAX = LABEL_TEXT_MAX - len(_LABEL)
# Claims as one text, for logs.
_TEXT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class AgentClaims:
    """Amounts of slots and labels that an agent claims beyond its grant."""

    slots: ResourceSlot = NO_SLOTS
    labels: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.slots) + len(self.labels)

    def texts(self) -> list[str]:
        """Each claim as a text, in order.

        >>> AgentClaims(ResourceSlot({"cpu": 4000}), {"rack": "r1"}).texts()
        ['slot cpu=4', 'label rack=r1']
        """
        slots = [f"slot {slot}={format_amount(slot, amount)}" for slot, amount in sorted(self.slots.items())]
        return [*slots, *(f"label {name}={value}" for name, value in sorted(self.labels.items()))]

    def __str__(self) -> str:
        text = ", ".join(self.texts())
        return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."

    def marks(self) -> dict[str, str]:
        """The labels that hold the claims; none without a claim."""
        if not self:
            return {}
        slots = {_SLOT + slot: str(amount) for slot, amount in self.slots.items()}
        return {
            UNAPPROVED_LABEL: str(len(self)),
            **slots,
            **{_LABEL + name: text for name, text in self.labels.items()},
        }


NO_CLAIMS = AgentClaims()


def claims_in(labels: Mapping[str, str]) -> AgentClaims:
    """The claims that the labels of an agent hold."""
    if UNAPPROVED_LABEL not in labels:
        return NO_CLAIMS
    amounts = {
        name.removeprefix(_SLOT): int(text)
        for name, text in labels.items()
        if name.startswith(_SLOT) and text.isascii() and text.isdecimal()
    }
    claimed = {name.removeprefix(_LABEL): text for name, text in labels.items() if name.startswith(_LABEL)}
    return AgentClaims(ResourceSlot(amounts), claimed)


def without_claims(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of an agent that hold no claims."""
    return {
        name: text for name, text in labels.items() if name != UNAPPROVED_LABEL and not name.startswith(CLAIM_PREFIX)
    }
