"""Table of the catalogue nouns: columns, options, wire type and examples of each.

`catalog_commands` generates the commands ls, show, set and rm of a noun from its row. A
new field of a catalogue object needs one option, and one column if it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from sokovan.cli.commands.catalog.catalog_actions import ShownWith
from sokovan.cli.commands.catalog.catalog_options import (
    CatalogOption,
    read_amounts,
    read_scheduler_options,
    read_seconds,
    read_size,
    read_slot_weights,
    read_whole,
)
from sokovan.cli.commands.catalog.quota_owners import assign_quota, owners_of, policy_of, require_owner
from sokovan.cli.formatting import NONE, amount, length, or_none
from sokovan.cli.rendering import Column
from sokovan.wire.api.fleet import ImageBody, QueueBody, ScalingGroupBody
from sokovan.wire.api.tenancy import DomainBody, GroupBody, PolicyBody, Role, UserBody

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogNoun:
    """One noun: how its objects are addressed, printed and changed."""

    noun: str
    body: type[Any]
    catalog: Callable[[Client], Any]
    columns: Sequence[Column[Any]]
    options: tuple[CatalogOption, ...]
    # Names for the examples of show and rm, and the command lines for those of set.
    shown_examples: tuple[str, ...]
    removed_example: str
    set_examples: tuple[str, ...]
    # Extra paragraphs of the help screens of ls, set and rm.
    details: dict[str, str]
    # Options of show, set and rm that select one of several objects of the same name.
    selectors: tuple[CatalogOption, ...] = ()
    # A new object without --domain belongs to the caller's domain.
    in_domain: bool = False
    name_help: str = ""
    stored_name: Callable[[str], str] = str
    before_set: Callable[[Client, str], None] | None = None
    after_set: Callable[[Client, str], None] | None = None
    # The names of what the server removes with an object.
    removed_with: Callable[[Client, str], Sequence[str]] | None = None
    # The lines of `show` beside the columns, which cost further requests.
    shown_with: Callable[[Client, str], ShownWith] | None = None

    @property
    def title(self) -> str:
        """The noun in a sentence."""
        return self.noun.replace("-", " ")


def amounts_text(amounts: Any) -> str:
    """Amounts by slot, as users write them."""
    return " ".join(f"{slot}={amount}" for slot, amount in sorted((amounts or {}).items())) or NONE


_WEIGHT = CatalogOption(
    "weight", "Weight in fair share: with 2, twice the usage counts the same.", "weight", read=read_whole
)
_QUOTA = CatalogOption("quota", "Quota to apply.", "policy")
_DOMAIN = CatalogOption("domain", "Domain; default for new objects: your own.", "domain", clearable=False)
_KEEP = "Options that are omitted keep their value; an empty value ('') restores the default."
_MERGED = "Amounts are merged: gpu=8 sets one, gpu= removes it, '' removes all."


def _best_effort(group: Any) -> str:
    """Whether best-effort kernels are accepted, and how many."""
    counts = f"{group.best_effort_per_agent_max} per agent, {group.best_effort_per_user_max} per user"
    return counts if group.allow_best_effort else "no"


_SCALING_GROUP = CatalogNoun(
    noun="scaling-group",
    body=ScalingGroupBody,
    catalog=lambda client: client.scaling_groups,
    columns=(
        Column("name", lambda group: group.name),
        Column("scheduler", lambda group: group.scheduler),
        Column("slots", lambda group: ", ".join(group.known_slots) or NONE),
        Column("types", lambda group: ", ".join(group.session_types) or "all"),
        Column("for", lambda group: "all" if group.public else ", ".join(group.assigned_to) or NONE),
        Column("queue", lambda group: or_none(group.default_queue)),
        Column("pending_timeout_s", lambda group: or_none(group.pending_timeout_s)),
        Column("lifetime_max_s", lambda group: or_none(group.lifetime_max_s)),
        Column("idle_timeout_s", lambda group: or_none(group.idle_timeout_s), wide=True),
        Column("idle_timeout_max_s", lambda group: or_none(group.idle_timeout_max_s), wide=True),
        Column("slot_priority", lambda group: ", ".join(group.slot_priority), wide=True),
        Column("half_life_s", lambda group: str(group.usage_half_life_s)),
        Column("weights", lambda group: amounts_text(group.slot_weights)),
        Column("mem_per_gpu", lambda group: or_none(group.mem_per_gpu)),
        Column("mem_per_cpu", lambda group: or_none(group.mem_per_cpu)),
        Column("network", lambda group: "none" if group.isolated_network else "shared"),
        Column("best_effort", _best_effort),
        Column("mount_roots", lambda group: ", ".join(group.mount_roots) or NONE),
        Column("options", lambda group: json.dumps(group.scheduler_opts) if group.scheduler_opts else NONE),
    ),
    options=(
        CatalogOption("scheduler", "fifo, lifo, drf, fair-share, multifactor or deadline.", "scheduler"),
        CatalogOption("slot", "Slot type of its agents. Repeatable; replaces all.", "known_slots", repeatable=True),
        CatalogOption(
            "slot_priority",
            "Slot the legacy selector compares first. Repeatable.",
            "slot_priority",
            repeatable=True,
        ),
        CatalogOption(
            "session_type",
            "Session type taken, '' for all. Repeatable; replaces.",
            "session_types",
            repeatable=True,
        ),
        CatalogOption("public", "Whether every owner may use it.", "public", type=bool, negative="--private"),
        CatalogOption(
            "assign",
            "Owner it serves: group:nlp. Repeatable; replaces all.",
            "assigned_to",
            repeatable=True,
        ),
        CatalogOption("default_queue", "Queue of sessions that name none.", "default_queue"),
        CatalogOption("max_lifetime", "End sessions that run longer: 7d.", "lifetime_max_s", read=read_seconds),
        CatalogOption(
            "idle_timeout",
            "Idle timeout of interactive sessions without one: 30m.",
            "idle_timeout_s",
            read=read_seconds,
        ),
        CatalogOption(
            "max_idle_timeout",
            "Longest idle timeout of interactive sessions: 8h.",
            "idle_timeout_max_s",
            read=read_seconds,
        ),
        CatalogOption(
            "isolated_network",
            "Whether kernels have no network.",
            "isolated_network",
            type=bool,
            negative="--shared-network",
        ),
        CatalogOption(
            "mount_root",
            "Folder open to sessions. Repeatable; replaces all.",
            "mount_roots",
            repeatable=True,
        ),
        CatalogOption(
            "option",
            "Scheduler option NAME=VALUE, lists as JSON; null: remove.",
            "scheduler_opts",
            repeatable=True,
            read=read_scheduler_options,
        ),
        CatalogOption(
            "pending_timeout",
            "Cancel sessions that may start but wait longer: 2h.",
            "pending_timeout_s",
            read=read_seconds,
        ),
        CatalogOption(
            "usage_half_life",
            "Time in which past usage halves, for fair-share: 7d.",
            "usage_half_life_s",
            read=read_seconds,
        ),
        CatalogOption(
            "slot_weight",
            "Weight of a slot in past usage: gpu=60. Repeatable.",
            "slot_weights",
            repeatable=True,
            read=read_slot_weights,
        ),
        CatalogOption("mem_per_gpu", "Default memory per GPU: 32GiB.", "mem_per_gpu"),
        CatalogOption("mem_per_cpu", "Default memory per CPU: 4GiB.", "mem_per_cpu"),
        CatalogOption(
            "best_effort",
            "Whether kernels may request no resources.",
            "allow_best_effort",
            type=bool,
            negative="--no-best-effort",
        ),
        CatalogOption(
            "best_effort_per_agent",
            "Best-effort kernels per agent; default: 16.",
            "best_effort_per_agent_max",
            read=read_whole,
        ),
        CatalogOption(
            "best_effort_per_user",
            "Best-effort kernels per user; default: 8.",
            "best_effort_per_user_max",
            read=read_whole,
        ),
    ),
    shown_examples=("default",),
    removed_example="gpu",
    set_examples=(
        "default --scheduler drf --pending-timeout 2h",
        """default --option 'actions=["enqueue", "allocate"]'""",
        "gpu --slot cpu --slot cuda.device",
        "gpu --option agent_selector=dispersed",
        "gpu --scheduler fair-share --usage-half-life 14d",
        "gpu --mem-per-gpu 64GiB --mem-per-cpu 4GiB",
        "lab --private --assign group:nlp --assign domain:ai",
        "night --session-type batch --default-queue night",
        "night --max-lifetime 12h",
        "scavenge --best-effort --best-effort-per-agent 4",
    ),
    details={
        "set": "Without --scaling-group a session goes to one that takes its type, owner, slots and architecture, "
        "preferably one with room for it. Without --mem a kernel gets memory in proportion to its share of an agent's "
        "GPUs, else of its CPUs; "
        f"--mem-per-gpu and --mem-per-cpu set fixed amounts instead. {_KEEP}"
    },
)

# The scaling groups whose shares `queue show` lists; each costs a request.
_GROUPS_MAX = 8


def _shares(client: Client, queue: str) -> ShownWith:
    """Lines like `default cuda.device`: `6 in use, 4 deserved, 2 borrowed, 8 waiting`."""
    groups = [group.name for group in islice(client.scaling_groups.list(), _GROUPS_MAX)]
    shares = [one for group in groups for one in client.usage.shares(queue=queue, scaling_group=group).items]
    lines = []
    for one in shares:
        deserved = [] if one.deserved is None else [f"{amount(one.slot, one.deserved)} deserved"]
        parts = [f"{amount(one.slot, one.allocated)} in use", *deserved]
        parts += [f"{amount(one.slot, one.borrowed)} borrowed"] if one.borrowed else []
        parts += [f"{amount(one.slot, one.waiting)} waiting"] if one.waiting else []
        lines.append((f"{one.scaling_group} {one.slot}", ", ".join(parts)))
    return ShownWith(lines, {"shares": shares})


def _assigned(client: Client, policy: str) -> ShownWith:
    """The owners that have a quota."""
    owners = owners_of(client, policy)
    return ShownWith([("assigned_to", ", ".join(owners) or NONE)], {"assigned_to": list(owners)})


_QUEUE = CatalogNoun(
    noun="queue",
    body=QueueBody,
    catalog=lambda client: client.queues,
    columns=(
        Column("name", lambda queue: queue.name),
        Column("parent", lambda queue: or_none(queue.parent)),
        Column("weight", lambda queue: str(queue.weight)),
        Column("priority", lambda queue: str(queue.priority)),
        Column("open", lambda queue: "yes" if queue.open else "no"),
        Column("reclaimable", lambda queue: "yes" if queue.reclaimable else "no", wide=True),
        Column("min_runtime", lambda queue: length(queue.min_runtime_s), wide=True),
        Column("return", lambda queue: length(queue.return_s), wide=True),
        Column("deserved", lambda queue: amounts_text(queue.deserved)),
        Column("guarantee", lambda queue: amounts_text(queue.guarantee)),
        Column("max", lambda queue: amounts_text(queue.capability)),
    ),
    options=(
        CatalogOption("weight", "Weight in fair sharing.", "weight", read=read_whole),
        CatalogOption("priority", "Priority; higher is scheduled first.", "priority", read=read_whole),
        CatalogOption("parent", "Parent queue.", "parent"),
        CatalogOption("open", "Whether it accepts sessions.", "open", type=bool, negative="--closed"),
        CatalogOption(
            "reclaimable",
            "Whether others reclaim what it borrows.",
            "reclaimable",
            type=bool,
            negative="--not-reclaimable",
        ),
        CatalogOption(
            "min_runtime", "Evict no session before it ran this long: 5m.", "min_runtime_s", read=read_seconds
        ),
        CatalogOption(
            "return_within", "Lend unused guarantees if returned within this time: 1m.", "return_s", read=read_seconds
        ),
        CatalogOption(
            "deserved", "Deserved share: gpu=96. Repeatable.", "deserved", repeatable=True, read=read_amounts
        ),
        CatalogOption(
            "guarantee",
            "Amount reserved for it, even when idle. Repeatable.",
            "guarantee",
            repeatable=True,
            read=read_amounts,
        ),
        CatalogOption("max", "Maximum use. Repeatable.", "capability", repeatable=True, read=read_amounts),
    ),
    shown_examples=("research",),
    shown_with=_shares,
    removed_example="research",
    set_examples=(
        "research --weight 3 --max gpu=256",
        "research --closed",
        "research --max gpu= --parent ''",
        "nlp --parent research --guarantee gpu=16 --deserved gpu=32",
    ),
    details={
        "set": "The guarantees of queues below another add up to at most its guarantee, and so do deserved shares. "
        f"{_MERGED} {_KEEP}"
    },
)

_QUOTA_NOUN = CatalogNoun(
    noun="quota",
    body=PolicyBody,
    catalog=lambda client: client.policies,
    columns=(
        Column("name", lambda policy: policy.name),
        Column("slots", lambda policy: amounts_text(policy.slots_max)),
        Column("sessions", lambda policy: or_none(policy.sessions_max)),
        Column("pending", lambda policy: or_none(policy.pending_sessions_max)),
        Column("pending_slots", lambda policy: amounts_text(policy.pending_slots_max)),
        Column("kernels", lambda policy: or_none(policy.kernels_per_session_max)),
        Column("priority", lambda policy: or_none(policy.priority_max)),
        Column("array", lambda policy: or_none(policy.array_size_max), wide=True),
        Column("least", lambda policy: amounts_text(policy.slots_min), wide=True),
        Column("stored", lambda policy: or_none(policy.stored_pending_max), wide=True),
        Column("disk", lambda policy: or_none(policy.kernel_disk_max), wide=True),
    ),
    options=(
        CatalogOption(
            "amounts", "Maximum amounts in use at once: gpu=64 mem=512GiB.", "slots_max", positional=True,
            read=read_amounts,
        ),
        CatalogOption("sessions", "Maximum number of running sessions.", "sessions_max", read=read_whole),
        CatalogOption(
            "pending_slot", "Maximum amounts of pending sessions. Repeatable.", "pending_slots_max",
            repeatable=True, read=read_amounts,
        ),
        CatalogOption(
            "pending", "Maximum number of pending sessions; 0: none starts.", "pending_sessions_max", read=read_whole
        ),
        CatalogOption(
            "kernels",
            "Maximum number of kernels per session; default: 256.",
            "kernels_per_session_max",
            read=read_whole,
        ),
        CatalogOption("priority", "Maximum priority of a session; default: 100.", "priority_max", read=read_whole),
        CatalogOption(
            "array", "Maximum number of sessions of an array; default: 10000.", "array_size_max", read=read_whole,
        ),
        CatalogOption(
            "least", "Minimum resources of a kernel: mem=1GiB. Repeatable.", "slots_min", repeatable=True,
            read=read_amounts,
        ),
        CatalogOption(
            "stored", "Stored pending sessions of a user; default: 20000.", "stored_pending_max",
            read=read_whole,
        ),
        CatalogOption("disk", "Disk space of a kernel: 20GiB; default: 100GiB.", "kernel_disk_max", read=read_size),
    ),
    shown_examples=("students", "group:nlp"),
    removed_example="students",
    set_examples=(
        "students gpu=8 cpu=64 --sessions 10",
        "students --pending 20 --pending-slot gpu=16",
        "students --least cpu=0.5 --least mem=512MiB",
        "group:nlp gpu=64",
        "students gpu= --sessions ''",
    ),
    details={
        "set": "A plain name is a quota that several owners can share. An owner, such as group:nlp, gets a quota of "
        f"its own. {_MERGED} {_KEEP}"
    },
    name_help="Quota name, or user:NAME, group:NAME or domain:NAME.",
    stored_name=policy_of,
    before_set=require_owner,
    after_set=assign_quota,
    shown_with=_assigned,
)  # fmt: skip

_IMAGE = CatalogNoun(
    noun="image",
    body=ImageBody,
    catalog=lambda client: client.images,
    columns=(
        Column("name", lambda image: image.name),
        Column("arch", lambda image: image.architecture),
        Column("least", lambda image: amounts_text(image.slots_min)),
        Column("digest", lambda image: or_none(image.digest)),
    ),
    options=(
        CatalogOption("digest", "Digest that containers start from: sha256:...", "digest"),
        CatalogOption(
            "least", "Minimum resources of a kernel: mem=4GiB. Repeatable.", "slots_min", repeatable=True,
            read=read_amounts,
        ),
    ),
    selectors=(
        CatalogOption(
            "architecture", "CPU architecture; default: x86_64.", "architecture", default="x86_64", clearable=False
        ),
    ),
    shown_examples=("pytorch/pytorch:2.9",),
    removed_example="pytorch/pytorch:2.9",
    set_examples=("pytorch/pytorch:2.9 --least mem=4GiB",),
    details={"ls": "The images host and venv:NAME exist without being registered.", "set": f"{_MERGED} {_KEEP}"},
)  # fmt: skip

_DOMAIN_NOUN = CatalogNoun(
    noun="domain",
    body=DomainBody,
    catalog=lambda client: client.domains,
    columns=(
        Column("name", lambda domain: domain.name),
        Column("quota", lambda domain: or_none(domain.policy)),
    ),
    options=(_QUOTA,),
    shown_examples=("default",),
    removed_example="physics",
    set_examples=("physics --quota big",),
    details={"set": _KEEP},
)

_GROUP = CatalogNoun(
    noun="group",
    body=GroupBody,
    catalog=lambda client: client.groups,
    columns=(
        Column("name", lambda group: group.name),
        Column("domain", lambda group: group.domain),
        Column("quota", lambda group: or_none(group.policy)),
        Column("weight", lambda group: str(group.weight)),
    ),
    options=(_DOMAIN, _QUOTA, _WEIGHT),
    shown_examples=("nlp",),
    removed_example="nlp",
    set_examples=("nlp --quota big", "nlp --weight 3", "nlp --quota ''"),
    details={"set": _KEEP},
    in_domain=True,
)

_USER = CatalogNoun(
    noun="user",
    body=UserBody,
    catalog=lambda client: client.users,
    columns=(
        Column("name", lambda user: user.name),
        Column("role", lambda user: user.role),
        Column("domain", lambda user: user.domain),
        Column("groups", lambda user: ", ".join(user.groups) or NONE),
        Column("quota", lambda user: or_none(user.policy)),
        Column("weight", lambda user: str(user.weight)),
    ),
    options=(
        _DOMAIN,
        CatalogOption("group", "Group of the user. Repeatable; replaces all.", "groups", repeatable=True),
        CatalogOption("role", "Role of the user.", "role", type=Role),
        _QUOTA,
        _WEIGHT,
    ),
    shown_examples=("ada",),
    removed_example="ada",
    set_examples=("ada --group nlp --group vision", "ada --role domain-admin"),
    details={
        "set": f"A new user also needs an API key: sokovan key add NAME. {_KEEP}",
        "rm": "The API keys of the user are revoked.",
    },
    removed_with=lambda client, name: [f"key {key.access_key}" for key in client.keys.list() if key.user == name],
    in_domain=True,
)

CATALOG = {
    row.noun: row for row in (_SCALING_GROUP, _QUEUE, _QUOTA_NOUN, _IMAGE, _DOMAIN_NOUN, _GROUP, _USER)
}  # fmt: skip
