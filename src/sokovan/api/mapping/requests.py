"""Converts session requests from the wire to the domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TypeVar

from sokovan.api.mapping.times import read_duration, read_time
from sokovan.domain.arrays import read_array
from sokovan.domain.constraints.affinity import read_affinity
from sokovan.domain.constraints.label_expression import read_expression
from sokovan.domain.constraints.taint import read_toleration
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.problems import InvalidRequest, Problem, problem_text
from sokovan.domain.session import (
    EndPolicy,
    LostPolicy,
    Mount,
    Partition,
    PreemptedPolicy,
    Preemption,
    ServicePort,
    ServiceProtocol,
    SessionType,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.session_request import KernelGroupRequest, SessionRequest
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, PartitionBody, RetryBody, ServicePortBody, SessionBody

B = TypeVar("B")
T = TypeVar("T")

# Fields of the body that are converted; all others have the same name and value in the request.
CONVERTED = frozenset(
    {"name", "type", "image", "command", "groups", "mounts", "ports", "architecture", "scaling_group", "queue", "group",
     "topology", "depends_on", "starts_at", "time_limit", "idle_timeout", "stop_grace", "ends_with",
     "on_agent_lost", "retry", "where", "tolerations", "affinity", "anti_affinity", "array", "gates", "partitions",
     "preemption", "on_preempt", "nominated", "booking", "deadline", "checkpoint"}
)  # fmt: skip
_SAME = tuple(one.name for one in fields(SessionBody) if one.name not in CONVERTED)


def session_request(body: SessionBody) -> SessionRequest:
    """The session request of a body. Raises InvalidSpec, InvalidRequest."""
    return SessionRequest(
        **{name: getattr(body, name) for name in _SAME},
        name=_named(body.name, "name"),
        session_type=SessionType(body.type),
        image=_named(body.image, "image"),
        command=tuple(body.command),
        groups=tuple(_group(group) for group in body.groups),
        mounts=tuple(_at(f"mounts/{index}", _mount, mount) for index, mount in enumerate(body.mounts)),
        ports=tuple(_at(f"ports/{index}", _port, port) for index, port in enumerate(body.ports)),
        where=_texts("where", read_expression, body.where),
        tolerations=_texts("tolerations", read_toleration, body.tolerations),
        affinity=_texts("affinity", read_affinity, body.affinity),
        anti_affinity=_texts("anti_affinity", read_affinity, body.anti_affinity),
        architecture=_named(body.architecture, "architecture"),
        scaling_group=_named(body.scaling_group, "scaling_group"),
        queue=_named(body.queue, "queue"),
        group=_named(body.group, "group"),
        topology=read_topology(body.topology) if body.topology is not None else None,
        depends_on=tuple(body.depends_on),
        starts_at_ms=read_time(body.starts_at, field="starts_at") if body.starts_at is not None else None,
        time_limit_s=_seconds(body.time_limit, "time_limit"),
        idle_timeout_s=_seconds(body.idle_timeout, "idle_timeout"),
        checkpoint_s=_seconds(body.checkpoint, "checkpoint"),
        stop_grace_s=read_duration(body.stop_grace, field="stop_grace"),
        ends_with=EndPolicy(body.ends_with) if body.ends_with is not None else None,
        on_agent_lost=LostPolicy(body.on_agent_lost),
        retry=_at("retry", _retry, body.retry),
        array=None if body.array is None else read_array(body.array),
        gates=tuple(body.gates),
        partitions=tuple(_at(f"partitions/{index}", _partition, one) for index, one in enumerate(body.partitions)),
        preemption=Preemption(body.preemption),
        on_preempt=None if body.on_preempt is None else PreemptedPolicy(body.on_preempt),
        nominated=_named(body.nominated, "nominated"),
        booking=_named(body.booking, "booking"),
        deadline_ms=read_time(body.deadline, field="deadline") if body.deadline is not None else None,
    )


def _seconds(given: int | str | None, field: str) -> int | None:
    return None if given is None else read_duration(given, field=field, least=1)


def read_topology(text: str) -> TopologyConstraint:
    """`hard`, `soft`, or one of them with the highest tier: `hard:rack`, `soft:2`.

    >>> read_topology("hard:2")
    TopologyConstraint(mode=<TopologyMode.HARD: 'hard'>, highest_tier=2)
    """
    mode, colon, tier = text.partition(":")
    if mode not in set(TopologyMode) or (colon and not tier):
        problem = "must be hard or soft, alone or with a tier: hard:rack, soft:2"
        raise InvalidSpec(what="session", field="topology", value=text, problem=problem)
    if not tier:
        return TopologyConstraint(TopologyMode(mode))
    is_number = tier.isascii() and tier.isdigit() and len(tier) < 10
    return TopologyConstraint(TopologyMode(mode), int(tier) if is_number else tier)


def topology_text(topology: TopologyConstraint) -> str:
    """The constraint in the notation of `read_topology`."""
    return topology.mode.value if topology.highest_tier is None else f"{topology.mode}:{topology.highest_tier}"


def partition_body(partition: Partition) -> PartitionBody:
    """The partition as a request has it."""
    return PartitionBody(
        name=partition.name,
        by=partition.by,
        size=partition.size,
        min_groups=partition.min_groups,
        topology=None if partition.topology is None else topology_text(partition.topology),
    )


def _group(body: KernelGroupBody) -> KernelGroupRequest:
    return KernelGroupRequest(
        name=body.name,
        size=body.size,
        minimum=body.minimum,
        image=body.image,
        command=None if body.command is None else tuple(body.command),
        environment=body.environment,
        resources=body.resources,
        labels=body.labels,
        require=body.require,
        priority=body.priority,
        nominated=body.nominated,
    )


def _partition(body: PartitionBody) -> Partition:
    topology = read_topology(body.topology) if body.topology is not None else None
    return Partition(body.name, body.by, size=body.size, min_groups=body.min_groups, topology=topology)


def _mount(body: MountBody) -> Mount:
    return Mount(source=body.source, target=body.target, read_only=body.read_only)


def _retry(body: RetryBody) -> RetryPolicy:
    backoff_s = read_duration(body.backoff, field="backoff")
    return RetryPolicy(attempts=body.attempts, backoff_s=backoff_s, elsewhere=body.elsewhere)


def _port(body: ServicePortBody) -> ServicePort:
    return ServicePort(body.name, body.port, ServiceProtocol(body.protocol))


def _texts(field: str, read: Callable[[str], T], texts: Sequence[str]) -> tuple[T, ...]:
    """Read each text of a field; an error names its position."""
    found = []
    for index, text in enumerate(texts):
        try:
            found.append(read(text))
        except InvalidSpec as error:
            raise InvalidRequest([Problem(f"{field}/{index}", f"{problem_text(error)}; {error.hint}")]) from error
    return tuple(found)


def _at(where: str, make: Callable[[B], T], body: B) -> T:
    """Convert a part of a session; its errors are located by path."""
    try:
        return make(body)
    except InvalidSpec as error:
        raise InvalidRequest([Problem(f"{where}/{error.field}", problem_text(error))]) from error


def _named(given: str | None, field: str) -> str:
    """Reject an empty text; None selects the default."""
    if given == "":
        problem = "is empty"
        raise InvalidSpec(
            what="session", field=field, value=given, problem=problem, hint=f"leave {field} out, or name one"
        )
    return given or ""
