"""Validates a request by itself: sizes, minimums, times, type, folders, ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from sokovan.domain.arrays import MEMBERS_DEFAULT
from sokovan.domain.cluster.mount_roots import SYSTEM_FOLDERS, folder_problem
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.commands import SCRATCH_FOLDERS, is_plain_path
from sokovan.domain.ids import SessionId, checked_name, is_name
from sokovan.domain.owners.policy import KERNELS_PER_SESSION_DEFAULT
from sokovan.domain.owners.tenancy import Role
from sokovan.domain.problems import Problem, problems_of
from sokovan.domain.session import (
    ANY_PORT,
    KERNELS_MAX,
    PARTITIONS_MAX,
    PRIORITY_RANGE,
    Mount,
    SessionSpec,
    SessionType,
)
from sokovan.orchestrator.sessions.intake.kernel_groups import kernel_groups
from sokovan.orchestrator.sessions.intake.validation_context import LOOKED_UP_MAX, IntakeQuery, group_of, owner_of
from sokovan.orchestrator.sessions.launch import port_variable
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.system import DEFAULT_PORT, LINK_PORT

CLUSTER_SIZE_MAX = 10_000
GROUPS_MAX = 256
PORTS_MAX = 16
STOP_GRACE_S_MAX = 3_600
# For users without a policy limit; higher priorities are reserved for administrators.
PRIORITY_USUAL_MAX = 100
MOUNTS_MAX = 64
# A mount over one of these would replace what a kernel executes, or its private folders.
SYSTEM_TARGETS = SYSTEM_FOLDERS | SCRATCH_FOLDERS
YEAR_S = 366 * 24 * 3_600
# Ports of the API and of the agent link: a kernel may share the network with the manager.
SYSTEM_PORTS = frozenset({DEFAULT_PORT, LINK_PORT})


def cluster_size(query: IntakeQuery) -> Iterator[Problem]:
    """Each group has at least one kernel; the total is limited."""
    request = query.request
    if request.groups and request.size != 1:
        yield Problem("size", "give the size of each group, or a size without groups, not both")
    if len(request.groups) > GROUPS_MAX:
        yield Problem("groups", f"{len(request.groups)} groups are more than {GROUPS_MAX}")
    groups = kernel_groups(request)
    for group in groups:
        if group.size < 1:
            yield Problem(group.place("size"), f"{group.size} kernels: a session or group has one or more")
    size = sum(group.size for group in groups)
    if size > CLUSTER_SIZE_MAX:
        yield Problem("size", f"{size} kernels are more than {CLUSTER_SIZE_MAX}, the limit for a session")


def array_size(query: IntakeQuery) -> Iterator[Problem]:
    """The size of an array is within the limits of the owner's policies."""
    array = query.request.array
    if array is None:
        return
    limits = [(policy.array_size_max, f"the limit of {whose}") for whose, policy in query.context.policies]
    given = [(most, which) for most, which in limits if most is not None]
    for most, which in given or [(MEMBERS_DEFAULT, "the limit without a policy limit")]:
        if array.size > most:
            yield Problem("array", f"{array.size} sessions are more than {most}, {which}")
    kernels = array.size * sum(max(0, group.size) for group in kernel_groups(query.request))
    if kernels > KERNELS_MAX:
        yield Problem("array", f"{kernels} kernels in all sessions are more than {KERNELS_MAX}, the limit for an array")


def cluster_minimum(query: IntakeQuery) -> Iterator[Problem]:
    """A minimum is between 0 and the number of kernels."""
    request = query.request
    sizes = [("minimum", request.minimum, sum(group.size for group in kernel_groups(request)))]
    sizes += [(f"groups/{i}/minimum", group.minimum, group.size) for i, group in enumerate(request.groups)]
    for where, minimum, size in sizes:
        if minimum is not None and not 0 <= minimum <= size:
            yield Problem(where, f"{minimum} is not between 0 and the number of kernels, {size}")


def group_names(query: IntakeQuery) -> Iterator[Problem]:
    """Each kernel group has a unique name."""
    names = Counter(group.name for group in query.request.groups)
    for index, group in enumerate(query.request.groups):
        where = f"groups/{index}/name"
        yield from problems_of(where, checked_name, group.name, what="kernel group")
        if names[group.name] > 1:
            yield Problem(where, f"{names[group.name]} groups are named {group.name!r}")


def partitions(query: IntakeQuery) -> Iterator[Problem]:
    """Each partition divides by a label that some kernels have."""
    labels = {label for group in kernel_groups(query.request) for label in group.labels}
    for index, partition in enumerate(query.request.partitions[:PARTITIONS_MAX]):
        if partition.by not in labels:
            yield Problem(f"partitions/{index}/by", f"no kernel group has a label {partition.by!r}; add it to groups")


def session_type(query: IntakeQuery) -> Iterator[Problem]:
    """System sessions are for administrators, inference sessions for deployments."""
    if query.request.session_type is SessionType.SYSTEM and query.caller.role is not Role.ADMIN:
        yield Problem("type", "system sessions are for administrators")
    if query.request.session_type is SessionType.INFERENCE and query.request.replica is None:
        yield Problem("type", "inference sessions belong to deployments: create one, or use batch with --port")


def evictions(query: IntakeQuery) -> Iterator[Problem]:
    """Only a session that others may evict borrows or is moved."""
    request = query.request
    if request.preemptible:
        return
    if request.borrow:
        yield Problem("borrow", "a session that is not preemptible cannot borrow: what is lent is taken back")
    if request.migratable:
        yield Problem("migratable", "a session that is not preemptible is never moved")


def starting_time(query: IntakeQuery) -> Iterator[Problem]:
    """Only batch sessions start later, at most a year ahead."""
    starts_at = query.request.starts_at_ms
    if starts_at is None:
        return
    if query.request.session_type is not SessionType.BATCH:
        yield Problem("starts_at", f"a session of type {query.request.session_type} cannot start later; batch can")
    if starts_at < 0:
        yield Problem("starts_at", "is before 1970")
    if starts_at > query.context.now_ms + YEAR_S * 1000:
        yield Problem("starts_at", "is more than a year ahead")


def durations(query: IntakeQuery) -> Iterator[Problem]:
    """Time limits are within their ranges; only interactive sessions are idle."""
    request = query.request
    if request.time_limit_s is not None and not 1 <= request.time_limit_s <= YEAR_S:
        yield Problem("time_limit", f"{request.time_limit_s} s is not between 1 second and a year")
    if request.idle_timeout_s is not None:
        if not 1 <= request.idle_timeout_s <= YEAR_S:
            yield Problem("idle_timeout", f"{request.idle_timeout_s} s is not between 1 second and a year")
        if request.session_type is not SessionType.INTERACTIVE:
            problem = f"a session of type {request.session_type} has no idle timeout; interactive sessions have"
            yield Problem("idle_timeout", problem)
    if not 0 <= request.stop_grace_s <= STOP_GRACE_S_MAX:
        yield Problem("stop_grace", f"{request.stop_grace_s} s is not between 0 and {STOP_GRACE_S_MAX} s")


def priority(query: IntakeQuery) -> Iterator[Problem]:
    """The priority is within the limits of the owner's policies, or the default limit."""
    value = query.request.priority
    low, high = PRIORITY_RANGE
    if not low <= value <= high:
        yield Problem("priority", f"{value} is not between {low} and {high}")
    for whose, policy in query.context.policies:
        if policy.priority_max is not None and value > policy.priority_max:
            yield Problem("priority", f"{value} is more than {policy.priority_max}, the limit of {whose}")
    unlimited = all(policy.priority_max is None for _, policy in query.context.policies)
    if unlimited and query.caller.role is not Role.ADMIN and PRIORITY_USUAL_MAX < value <= high:
        most = f"{PRIORITY_USUAL_MAX}, the limit for users without a policy limit"
        yield Problem("priority", f"{value} is more than {most}; an administrator can set one")


def kernel_limit(query: IntakeQuery) -> Iterator[Problem]:
    """The number of kernels is within the limits of the policies, or the default."""
    size = sum(group.size for group in kernel_groups(query.request))
    limits = [(policy.kernels_per_session_max, whose) for whose, policy in query.context.policies]
    given = [(most, whose) for most, whose in limits if most is not None]
    for most, whose in given:
        if size > most:
            yield Problem("size", f"{size} kernels are more than {most}, the limit of {whose} for one session")
    if not given and KERNELS_PER_SESSION_DEFAULT < size <= CLUSTER_SIZE_MAX:
        limit = f"{KERNELS_PER_SESSION_DEFAULT}, the limit for one session without a quota"
        hint = "an administrator can allow more: sokovan quota set user:NAME --kernels N"
        yield Problem("size", f"{size} kernels are more than {limit}; {hint}")


def mounts(query: IntakeQuery) -> Iterator[Problem]:
    """Targets of mounts are no system folders, and do not overlap.

    Nor do they overlap the working directory.
    """
    given, workdir = query.request.mounts, query.request.workdir
    if len(given) > MOUNTS_MAX:
        yield Problem("mounts", f"{len(given)} mounts are more than {MOUNTS_MAX}")
        return
    for index, mount in enumerate(given):
        if _covers_the_system(mount):
            yield Problem(f"mounts/{index}/target", f"{mount.target} is a system folder; choose one such as /data")
        # Below a folder that the user can write, a link would decide where it is mounted.
        if workdir and mount.source != mount.target and _overlap(mount.target, workdir):
            yield Problem(f"mounts/{index}/target", f"{mount.target} overlaps the working directory {workdir}")
        for earlier, other in enumerate(given[:index]):
            if _overlap(mount.target, other.target):
                yield Problem(f"mounts/{index}/target", f"{mount.target} overlaps {other.target} of mounts/{earlier}")


def folders(query: IntakeQuery) -> Iterator[Problem]:
    """The folders of agents are beneath the roots that the scaling group allows."""
    named = [(f"mounts/{index}/source", one.source) for index, one in enumerate(query.request.mounts[:MOUNTS_MAX])]
    # Other paths are refused by the spec itself.
    named += [("workdir", query.request.workdir)] if is_plain_path(query.request.workdir) else []
    group = query.scaling_group
    if group is None or not named:
        return
    owner = owner_of(query) if is_name(group_of(query.request, query.caller)) else query.caller.owner
    roots = group.folders_of(owner, is_alone=query.context.is_alone)
    for where, path in named:
        problem = folder_problem(path, roots, where=f"scaling group {group.name}")
        if problem:
            yield Problem(where, problem)


async def closed_folders(unit: UnitOfWork, specs: Sequence[SessionSpec]) -> Mapping[SessionId, str]:
    """Why sessions may not use the folders they name, if there are several users."""
    names = sorted({spec.scaling_group for spec in specs})
    found = await unit.catalog.find(*((ScalingGroup, name) for name in names))
    groups = {group.name: group for group in found if isinstance(group, ScalingGroup)}
    problems = {spec.session_id: _closed_folder(spec, groups.get(spec.scaling_group)) for spec in specs}
    return {session_id: f"there are several users now: {text}" for session_id, text in problems.items() if text}


def _closed_folder(spec: SessionSpec, group: ScalingGroup | None) -> str:
    roots = () if group is None else group.folders_of(spec.owner, is_alone=False)
    named = [*([spec.workdir] if spec.workdir else []), *(mount.source for mount in spec.mounts)]
    problems = (folder_problem(path, roots, where=f"scaling group {spec.scaling_group}") for path in named)
    return next((problem for problem in problems if problem), "")


def service_ports(query: IntakeQuery) -> Iterator[Problem]:
    """Each service has a unique name and port, and uses none of the system's ports."""
    given = query.request.ports
    if len(given) > PORTS_MAX:
        yield Problem("ports", f"{len(given)} service ports are more than {PORTS_MAX}")
    names = Counter(port_variable(one.name) for one in given)
    numbers = Counter(one.port for one in given if one.port != ANY_PORT)
    for index, one in enumerate(given):
        same = names[port_variable(one.name)]
        if same > 1:
            yield Problem(f"ports/{index}/name", f"{same} service ports are named {one.name!r}")
        if numbers[one.port] > 1:
            yield Problem(f"ports/{index}/port", f"port {one.port} is given {numbers[one.port]} times")
        if one.port in SYSTEM_PORTS:
            yield Problem(f"ports/{index}/port", f"port {one.port} is reserved for the system")


def network(query: IntakeQuery) -> Iterator[Problem]:
    """Kernels without a network have neither service ports nor others to talk to."""
    group = query.scaling_group
    if group is None or not group.isolated_network:
        return
    if query.request.ports:
        yield Problem("ports", f"kernels in scaling group {group.name} have no network, so that no port can be reached")
    if sum(one.size for one in kernel_groups(query.request)) > 1:
        yield Problem("size", f"kernels in scaling group {group.name} have no network and cannot reach one another")


def dependency_count(query: IntakeQuery) -> Iterator[Problem]:
    """The number of dependencies is limited."""
    count = len(query.request.depends_on)
    if count > LOOKED_UP_MAX:
        yield Problem("depends_on", f"{count} sessions are more than {LOOKED_UP_MAX}")


def _covers_the_system(mount: Mount) -> bool:
    target, source = PurePosixPath(mount.target).parts, PurePosixPath(mount.source).parts
    # A sandbox executes nothing from scratch folders: a mount may keep its path there.
    stays = target == source and len(target) > 1 and target[1] in SCRATCH_FOLDERS
    return len(target) < 2 or (target[1] in SYSTEM_TARGETS and not stays)


def _overlap(one: str, other: str) -> bool:
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first == second or first in second.parents or second in first.parents
