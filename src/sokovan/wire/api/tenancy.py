"""JSON types of owners, keys and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sokovan.wire.api.bodies import Amount, StrictBody

Role = Literal["admin", "domain-admin", "user"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBody(StrictBody):
    """A domain: the top-level tenant."""

    name: str
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainPage:
    """The domains that the caller may see."""

    items: list[DomainBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBody(StrictBody):
    """A project inside a domain."""

    name: str
    domain: str
    policy: str | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """The groups that the caller may see."""

    items: list[GroupBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserBody(StrictBody):
    """A person or service account of one domain."""

    name: str
    domain: str
    groups: list[str] = field(default_factory=list)
    policy: str | None = None
    role: Role = "user"
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage:
    """The users that the caller may see."""

    items: list[UserBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest(StrictBody):
    """A new key for a user."""

    user: str
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPolicyBody(StrictBody):
    """The policy of a key from now on; null for none."""

    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """A key without its secret."""

    access_key: str
    user: str
    policy: str | None
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKeyView(KeyView):
    """A new key; its token is shown only once."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """The keys that the caller may see."""

    items: list[KeyView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginView:
    """A browser that is logged in; `current` is that of the caller."""

    id: str
    user: str
    access_key: str
    created_at: str
    used_at: str
    expires_at: str
    address: str
    current: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLoginView(LoginView):
    """A new login; `proof` is the half that is not in the cookie, shown once."""

    proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPage:
    """The logins that the caller may see."""

    items: list[LoginView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCodeView:
    """A code that logs a browser in once; `path` has it in its fragment."""

    code: str
    path: str
    expires_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBody(StrictBody):
    """Limits of the owners with this policy; a missing value means no limit.

    Each kernel requests at least `slots_min`, and has at most `kernel_disk_max` bytes on the
    disk of its agent.
    """

    name: str
    slots_max: dict[str, Amount] = field(default_factory=dict)
    sessions_max: int | None = None
    pending_sessions_max: int | None = None
    pending_slots_max: dict[str, Amount] = field(default_factory=dict)
    kernels_per_session_max: int | None = None
    priority_max: int | None = None
    array_size_max: int | None = None
    slots_min: dict[str, Amount] = field(default_factory=dict)
    stored_pending_max: int | None = None
    kernel_disk_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPage:
    """All policies."""

    items: list[PolicyBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """Past usage of a user, group or queue in a scaling group, decayed to now.

    `slots` has seconds of a core, a GiB or a device by slot; `weighted` is their sum by
    slot weight, and `share` is that divided by the weight of the owner.
    """

    scaling_group: str
    kind: str
    name: str
    weight: int
    slots: dict[str, int]
    weighted: int
    share: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLimitsView:
    """The slots that an owner holds now, beside the limits of its quota.

    `kind` is `domain`, `group`, `user` or `keypair`. `limits` are the most of a slot that it may
    hold at once, and `sessions_max` the most sessions.
    """

    kind: str
    name: str
    policy: str
    limits: dict[str, int]
    used: dict[str, int]
    sessions: int
    sessions_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLimitsPage:
    """A page of owners with a quota; `next` is the cursor of the next page."""

    items: list[OwnerLimitsView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSeriesView:
    """The mean amount of a slot that a name held in each step.

    In the smallest unit of the slot.
    """

    name: str
    slot: str
    used: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageHistoryView:
    """Held slots over time, in steps from `since` to `until`.

    The last one may be shorter. `by` is what `name` of a series names; with `all` it is empty.
    `left_out` names held less than those that are listed.
    """

    since: str
    until: str
    step_s: int
    by: str
    items: list[UsageSeriesView]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    """Past usage that the caller may see."""

    items: list[UsageView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTokenBody(StrictBody):
    """The request for a token that lets one machine join.

    `slots` are the most that its agent may report, and `labels` those that it may; what it
    claims beyond them waits for an approval. Without `slots` it may report any.
    """

    scaling_group: str = "default"
    slots: dict[str, Amount] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    expires_s: int = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTokenView:
    """A new join token, its URL, and the digest of the certificate authority."""

    token: str
    url: str
    authority: str
    scaling_group: str
    expires_at: str
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTokenLine:
    """A join token in a list; `used_by` is the agent that joined with it."""

    name: str
    scaling_group: str
    slots: dict[str, int]
    labels: dict[str, str]
    created_by: str
    expires_at: str
    used_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTokenPage:
    """A page of join tokens."""

    items: list[JoinTokenLine]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimApproval(StrictBody):
    """The approval of the claims of an agent: its `unapproved`, as it was shown."""

    claims: list[str]
