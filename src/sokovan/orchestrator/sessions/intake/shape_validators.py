"""Whether a request makes sense by itself: sizes, minimums, times, sort, mounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from sokovan.domain.ids import checked_name
from sokovan.domain.problems import Problem, problems_of
from sokovan.domain.session import PRIORITY_RANGE, Mount, SessionType
from sokovan.domain.tenancy import Role
from sokovan.orchestrator.sessions.intake.kernel_groups import kernel_groups
from sokovan.orchestrator.sessions.intake.validation_context import LOOKED_UP_MAX, IntakeQuery

CLUSTER_SIZE_MAX = 10_000
GROUPS_MAX = 256
MOUNTS_MAX = 64
PORTS_MAX = 16
STOP_GRACE_S_MAX = 3_600
# Of whoever has no limit of his own; what is above is for administrators, so that they can always go first.
PRIORITY_USUAL_MAX = 100
YEAR_S = 366 * 24 * 3_600
# Of the API, and of the manager for its agents: a kernel may share the network with them.
SYSTEM_PORTS = frozenset({7646, 7647})
# Where the system itself lives: who could put something else there would choose what a kernel runs.
SYSTEM_TARGETS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
)
# What lies here may be shown where it is: nothing that a sandbox runs comes from there.
SCRATCH = frozenset({"tmp", "var"})
# What no kernel has any business with: secrets, devices and the kernel's own files.
SYSTEM_SOURCES = frozenset({"boot", "dev", "etc", "proc", "run", "sys"})


def cluster_size(asked: IntakeQuery) -> Iterator[Problem]:
    """At least one kernel in each group, and not too many in all."""
    request = asked.request
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
        yield Problem("size", f"{size} kernels are more than {CLUSTER_SIZE_MAX}, the most a session may have")


def cluster_minimum(asked: IntakeQuery) -> Iterator[Problem]:
    """A minimum is between 0 and what there is."""
    request = asked.request
    sizes = [("minimum", request.minimum, sum(group.size for group in kernel_groups(request)))]
    sizes += [(f"groups/{i}/minimum", group.minimum, group.size) for i, group in enumerate(request.groups)]
    for where, minimum, size in sizes:
        if minimum is not None and not 0 <= minimum <= size:
            yield Problem(where, f"{minimum} is not between 0 and the {size} kernels there are")


def group_names(asked: IntakeQuery) -> Iterator[Problem]:
    """Each kernel group has a name of its own."""
    names = Counter(group.name for group in asked.request.groups)
    for index, group in enumerate(asked.request.groups):
        where = f"groups/{index}/name"
        yield from problems_of(where, checked_name, group.name, what="kernel group")
        if names[group.name] > 1:
            yield Problem(where, f"{names[group.name]} groups are called {group.name!r}")


def session_type(asked: IntakeQuery) -> Iterator[Problem]:
    """System sessions are for administrators."""
    if asked.request.session_type is SessionType.SYSTEM and asked.caller.role is not Role.ADMIN:
        yield Problem("type", "system sessions are for administrators")


def starting_time(asked: IntakeQuery) -> Iterator[Problem]:
    """A later start is for batch sessions, and not for another year."""
    starts_at = asked.request.starts_at_ms
    if starts_at is None:
        return
    if asked.request.session_type is not SessionType.BATCH:
        yield Problem("starts_at", f"a session of type {asked.request.session_type} cannot start later; batch can")
    if starts_at < 0:
        yield Problem("starts_at", "is before 1970")
    if starts_at > asked.facts.now_ms + YEAR_S * 1000:
        yield Problem("starts_at", "is more than a year ahead")


def durations(asked: IntakeQuery) -> Iterator[Problem]:
    """Limits in seconds that mean something."""
    request = asked.request
    if request.time_limit_s is not None and not 1 <= request.time_limit_s <= YEAR_S:
        yield Problem("time_limit", f"{request.time_limit_s} s is not between 1 second and a year")
    if not 0 <= request.stop_grace_s <= STOP_GRACE_S_MAX:
        yield Problem("stop_grace", f"{request.stop_grace_s} s is not between 0 and {STOP_GRACE_S_MAX} s")


def priority(asked: IntakeQuery) -> Iterator[Problem]:
    """Not above what the owner's policies allow, or what is usual."""
    wanted = asked.request.priority
    low, high = PRIORITY_RANGE
    if not low <= wanted <= high:
        yield Problem("priority", f"{wanted} is not between {low} and {high}")
    for whose, policy in asked.facts.policies:
        if policy.priority_max is not None and wanted > policy.priority_max:
            yield Problem("priority", f"{wanted} is more than {policy.priority_max}, the most that {whose} may have")
    unlimited = all(policy.priority_max is None for _, policy in asked.facts.policies)
    if unlimited and asked.caller.role is not Role.ADMIN and PRIORITY_USUAL_MAX < wanted <= high:
        most = f"{PRIORITY_USUAL_MAX}, the most there is for whom no policy sets a limit"
        yield Problem("priority", f"{wanted} is more than {most}; an administrator may set one")


def kernel_limit(asked: IntakeQuery) -> Iterator[Problem]:
    """Not more kernels than the owner's policies allow in one session."""
    size = sum(group.size for group in kernel_groups(asked.request))
    for whose, policy in asked.facts.policies:
        most = policy.kernels_per_session_max
        if most is not None and size > most:
            yield Problem("size", f"{size} kernels are more than {most}, the most that {whose} may have in a session")


def mounts(asked: IntakeQuery) -> Iterator[Problem]:
    """Targets that are no places of the system, and do not lie in each other."""
    given = asked.request.mounts
    if len(given) > MOUNTS_MAX:
        yield Problem("mounts", f"{len(given)} mounts are more than {MOUNTS_MAX}")
        return
    for index, mount in enumerate(given):
        yield from _misplaced(index, mount)
        for earlier, other in enumerate(given[:index]):
            if _overlap(mount.target, other.target):
                yield Problem(f"mounts/{index}/target", f"{mount.target} overlaps {other.target} of mounts/{earlier}")


def service_ports(asked: IntakeQuery) -> Iterator[Problem]:
    """Each service has a name and a port of its own, and none of the system's."""
    given = asked.request.ports
    if len(given) > PORTS_MAX:
        yield Problem("ports", f"{len(given)} service ports are more than {PORTS_MAX}")
    names, numbers = Counter(one.name for one in given), Counter(one.port for one in given)
    for index, one in enumerate(given):
        if names[one.name] > 1:
            yield Problem(f"ports/{index}/name", f"{names[one.name]} service ports are called {one.name!r}")
        if numbers[one.port] > 1:
            yield Problem(f"ports/{index}/port", f"port {one.port} is given {numbers[one.port]} times")
        if one.port in SYSTEM_PORTS:
            yield Problem(f"ports/{index}/port", f"port {one.port} is the system's own")


def dependency_count(asked: IntakeQuery) -> Iterator[Problem]:
    """A session waits for a bounded number of others."""
    count = len(asked.request.depends_on)
    if count > LOOKED_UP_MAX:
        yield Problem("depends_on", f"{count} sessions are more than {LOOKED_UP_MAX}")


def _misplaced(index: int, mount: Mount) -> Iterator[Problem]:
    target, source = PurePosixPath(mount.target).parts, PurePosixPath(mount.source).parts
    stays = target == source and len(target) > 1 and target[1] in SCRATCH
    if len(target) < 2 or (target[1] in SYSTEM_TARGETS and not stays):
        yield Problem(f"mounts/{index}/target", f"{mount.target} is a place of the system; choose one such as /data")
    if len(source) < 2 or source[1] in SYSTEM_SOURCES:
        yield Problem(f"mounts/{index}/source", f"{mount.source} is a place of the system, and is not given away")


def _overlap(one: str, other: str) -> bool:
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first == second or first in second.parents or second in first.parents
