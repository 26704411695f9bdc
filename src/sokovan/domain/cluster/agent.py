"""Agents: the machines that kernels run on."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sokovan.domain.checks import LABELS_MAX, require_int, require_kind, require_labels, require_slots, require_tuple
from sokovan.domain.cluster.agent_claims import MARKS_MAX, UNAPPROVED_LABEL, AgentClaims, claims_in, without_claims
from sokovan.domain.cluster.agent_health import HEALTHY, AgentHealth
from sokovan.domain.constraints.taint import TAINT_PREFIX, changed_taints, read_taint, without_taints
from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, DEFAULT_SCALING_GROUP, AgentId, ScalingGroupName, checked_name
from sokovan.domain.lifecycle.agent import SCHEDULABLE, AgentStatus
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

# The agent label for the mount targets that its kernels may use.
MOUNTS_LABEL = "sokovan.mounts"
# The agent label for the numbers of the accounts of its kernels.
ACCOUNTS_LABEL = "sokovan.accounts"
NO_ACCOUNTS = range(0)
ACCOUNTS_DEFAULT = "200000-265535"
# Those of the system and of people are below; the last numbers have a special meaning.
NUMBER_LEAST, NUMBER_MOST = 65_536, 2**32 - 2
_DIGITS_MAX = 10
MOUNTS_ANYWHERE = "anywhere"
MOUNTS_IN_PLACE = "in-place"
# The agent label for what keeps its kernels apart from each other and from the agent.
ISOLATION_LABEL = "sokovan.isolation"
ISOLATED_BY_SANDBOX = "sandbox"
NOT_ISOLATED = "none"
# How an agent runs kernels: as processes of its machine, or as containers of Docker or Podman.
PROCESS_RUNTIME = "process"
DOCKER_RUNTIME = "docker"
# The runtime of fake agents: it simulates every image, and serves no requests.
FAKE_RUNTIME = "fake"
RUNTIMES = (PROCESS_RUNTIME, DOCKER_RUNTIME, FAKE_RUNTIME)
# The agent label for its runtime; agents of earlier versions do not have it.
RUNTIME_LABEL = "sokovan.runtime"
# Labels of agents with this prefix are set by the system.
SYSTEM_PREFIX = "sokovan."
# Labels that operators may give an agent, beside those that it reports.
OPERATOR_LABELS_MAX = 32
_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/\-]{0,61}[A-Za-z0-9])?", re.ASCII)
# The agent label for the range of ports that are leased to kernels; the agent sets it from --kernel-ports.
PORTS_LABEL = "sokovan.ports"
# Below the ports that Linux gives to outgoing connections (32768 and up): those would be in the way.
PORTS_DEFAULT = range(20_000, 30_000)
_PORT_LEAST, _PORT_MOST = 1_024, 65_535  # without privileged ones
# The agent label with the address at which kernels on other machines reach its kernels: an operator's, else the
# system's, which the agent reports.
ADDRESS_LABEL, OWN_ADDRESS_LABEL = "address", "sokovan.address"
# The agent label with HOST:PORT of its data listener, where proxies on other machines reach its kernels.
DATA_LABEL = "sokovan.data"
FOREVER_MS = 1 << 62


def address_of(labels: Mapping[str, str]) -> str:
    """The address of an agent for kernels on other machines; empty if unknown."""
    return labels.get(ADDRESS_LABEL) or labels.get(OWN_ADDRESS_LABEL, "")


def port_range(labels: Mapping[str, str]) -> range:
    """The ports that an agent leases to kernels: its label, or the default."""
    text = labels.get(PORTS_LABEL)
    try:
        return PORTS_DEFAULT if text is None else read_port_range(text)
    except InvalidInput:  # another program than our agent has set the label
        return PORTS_DEFAULT


def read_network_range(text: str) -> str:
    """Read a range of private IPv4 addresses for networks of sessions; empty: none.

    Raises InvalidInput.
    """
    hint = "use private addresses for at least one network of 256, such as 10.213.0.0/16"
    try:
        found = ipaddress.IPv4Network(text) if text else None
    except ValueError:
        raise InvalidInput(f"{text[:80]!r} is not a range of IPv4 addresses", hint=hint) from None
    if found is not None and (not found.is_private or not 8 <= found.prefixlen <= 24):
        raise InvalidInput(f"{text[:80]!r} is not such a range", hint=hint)
    return text


def read_runtime(text: str) -> str:
    """Read the name of a runtime. Raises InvalidInput."""
    if text not in {PROCESS_RUNTIME, DOCKER_RUNTIME}:
        hint = f"use {PROCESS_RUNTIME}, or {DOCKER_RUNTIME} for Docker and Podman"
        raise InvalidInput(f"{text[:80]!r} is not a runtime", hint=hint)
    return text


def can_run(labels: Mapping[str, str], runtime: str, *, serves: bool) -> bool:
    """Whether an agent can run kernels of images of a runtime; empty for any.

    Kernels that serve requests are not simulated. An agent without the label, or with a
    runtime that is not known here, decides itself.

    >>> can_run({RUNTIME_LABEL: DOCKER_RUNTIME}, PROCESS_RUNTIME, serves=False)
    False
    """
    own = labels.get(RUNTIME_LABEL, "")
    if own == FAKE_RUNTIME:
        return not serves
    return not runtime or own not in {PROCESS_RUNTIME, DOCKER_RUNTIME} or own == runtime


def read_account_range(text: str) -> range:
    """Read a range of account numbers, such as 200000-265535; empty: none.

    Raises InvalidInput.
    """
    if not text:
        return NO_ACCOUNTS
    first, _, last = text.partition("-")
    numbers = [int(part) for part in (first, last) if part.isascii() and part.isdecimal() and len(part) <= _DIGITS_MAX]
    if len(numbers) != 2 or not NUMBER_LEAST <= numbers[0] < numbers[1] < NUMBER_MOST:
        hint = f"use FIRST-LAST, from {NUMBER_LEAST} to {NUMBER_MOST - 1}, such as {ACCOUNTS_DEFAULT}"
        raise InvalidInput(f"{text[:80]!r} is not a range of accounts", hint=hint)
    return range(numbers[0], numbers[1] + 1)


def account_range_text(accounts: range) -> str:
    """The text that `read_account_range` reads."""
    return f"{accounts[0]}-{accounts[-1]}" if accounts else ""


@lru_cache(maxsize=1_000)
def read_port_range(text: str) -> range:
    """Read a range of ports, such as 20000-29999. Raises InvalidInput."""
    first, _, last = text.partition("-")
    numbers = [int(part) for part in (first, last) if part.isascii() and part.isdecimal() and len(part) <= len("65535")]
    if len(numbers) != 2 or not _PORT_LEAST <= numbers[0] <= numbers[1] <= _PORT_MOST:  # both ends
        hint = f"use FIRST-LAST, from {_PORT_LEAST} to {_PORT_MOST}, such as {port_range_text(PORTS_DEFAULT)}"
        raise InvalidInput(f"{text[:80]!r} is not a range of ports", hint=hint)
    return range(numbers[0], numbers[1] + 1)


def port_range_text(ports: range) -> str:
    """The text that `read_port_range` reads.

    >>> port_range_text(PORTS_DEFAULT)
    '20000-29999'
    """
    return f"{ports.start}-{ports.stop - 1}"


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One machine: its capacity, its usage and what it may be used for.

    `incarnation` rises each time the agent enrols again; reports from an earlier
    incarnation, and requests to it, are rejected. `releasing_slots` and `releasing_count`
    are the part of the occupied resources that is being released. `leased_ports` are pairs
    of a port and the time in ms until which it is taken, FOREVER_MS while it is leased.
    """

    agent_id: AgentId
    available_slots: ResourceSlot
    occupied_slots: ResourceSlot = NO_SLOTS
    architecture: str = ARCHITECTURE_DEFAULT
    labels: Mapping[str, str] = field(default_factory=dict)
    kernels_max: int | None = None
    status: AgentStatus = AgentStatus.ALIVE
    scaling_group: ScalingGroupName = DEFAULT_SCALING_GROUP
    shard: str | None = None
    incarnation: int = 1
    cached_images: frozenset[str] = frozenset()
    releasing_slots: ResourceSlot = NO_SLOTS
    kernel_count: int = 0
    releasing_count: int = 0
    health: AgentHealth = HEALTHY
    leased_ports: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        checked_name(self.agent_id, what="agent")
        what = f"agent {self.agent_id}"
        require_slots(self.available_slots, what=what, field="available_slots")
        require_slots(self.occupied_slots, what=what, field="occupied_slots")
        checked_name(self.architecture, what="architecture")
        checked_name(self.scaling_group, what="scaling group")
        require_kind(self.status, AgentStatus, what=what, field="status")
        require_kind(self.cached_images, frozenset, what=what, field="cached_images")
        require_labels(self.labels, what=what, most=LABELS_MAX + OPERATOR_LABELS_MAX + MARKS_MAX)
        require_slots(self.releasing_slots, what=what, field="releasing_slots")
        require_kind(self.health, AgentHealth, what=what, field="health")
        require_tuple(self.leased_ports, tuple, what=what, field="leased_ports")
        require_int(self.incarnation, what=what, field="incarnation", least=1)
        require_int(self.kernel_count, what=what, field="kernel_count", least=0)
        require_int(self.releasing_count, what=what, field="releasing_count", least=0, most=self.kernel_count)
        if self.kernels_max is not None:
            require_int(self.kernels_max, what=what, field="kernels_max", least=0)
        if self.shard is not None:
            checked_name(self.shard, what="shard")
        if not self.releasing_slots.fits(self.occupied_slots):
            raise InvalidSpec(
                what=what, field="releasing_slots", value=self.releasing_slots, problem="is more than is occupied"
            )

    @property
    def schedulable(self) -> bool:
        """Whether new kernels may be placed on this agent."""
        return self.status in SCHEDULABLE and not self.health.is_failing and self.approved

    @property
    def approved(self) -> bool:
        """Whether it claims nothing that waits for an operator's approval."""
        return UNAPPROVED_LABEL not in self.labels

    @property
    def claims(self) -> AgentClaims:
        """The claims that wait for an approval."""
        return claims_in(self.labels)

    @property
    def has_left(self) -> bool:
        """Whether the agent is gone for good."""
        return self.status is AgentStatus.TERMINATED

    @property
    def free_slots(self) -> ResourceSlot:
        """Available minus occupied slots. Raises SlotUnderflow on an overcommitted agent."""
        return self.available_slots - self.occupied_slots


def require_reported_labels(agent_id: str, labels: object) -> None:
    """Require labels that leave room for those of operators. Raises InvalidSpec."""
    require_labels(labels, what=f"agent {agent_id}")


def shown_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that are shown as labels: neither taints nor claims."""
    return without_claims(without_taints(labels))


def claiming_labels(before: Mapping[str, str], marks: Mapping[str, str]) -> dict[str, str]:
    """The labels that operators gave an agent, and those that hold its claims now."""
    return {**without_claims(before), **marks}


def operator_labels(before: Mapping[str, str], added: Mapping[str, str], removed: Collection[str]) -> dict[str, str]:
    """The labels that operators gave an agent, after a change. Raises InvalidSpec."""
    what, field = "agent", "labels"
    for name in (*added, *removed):
        if not isinstance(name, str) or not _LABEL_NAME.fullmatch(name):
            problem = "is not 1 to 63 letters, digits and . _ - / that begin and end with a letter or digit"
            raise InvalidSpec(what=what, field=field, value=name, problem=problem)
        if name.startswith(SYSTEM_PREFIX):
            problem = f"begins with {SYSTEM_PREFIX}, which is reserved"
            hint = "taints are set by `sokovan agent taint`" if name.startswith(TAINT_PREFIX) else ""
            raise InvalidSpec(what=what, field=field, value=name, problem=problem, hint=hint)
        if name in added and name in removed:
            raise InvalidSpec(what=what, field=field, value=name, problem="is both set and removed")
    unknown = sorted(set(removed) - before.keys())
    if unknown:
        problem = "was not set by an operator"
        hint = "a label that the agent reports is changed where the agent is started, or overridden by NAME=VALUE"
        raise InvalidSpec(what=what, field=field, value=unknown[0], problem=problem, hint=hint)
    labels = {name: value for name, value in {**before, **added}.items() if name not in removed}
    require_labels(without_claims(labels), what=what, field=field, most=OPERATOR_LABELS_MAX)
    return labels


def operator_taints(before: Mapping[str, str], added: Iterable[str], removed: Iterable[str]) -> dict[str, str]:
    """The labels of operators after a change of taints. Raises InvalidSpec."""
    labels = changed_taints(before, map(read_taint, added), map(read_taint, removed))
    require_labels(without_claims(labels), what="agent", field="taints", most=OPERATOR_LABELS_MAX)
    return labels
