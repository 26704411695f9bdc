"""All request validators, by the names that users see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sokovan.domain.problems import Problem
from sokovan.orchestrator.sessions.intake import content_validators as content
from sokovan.orchestrator.sessions.intake import reference_validators as reference
from sokovan.orchestrator.sessions.intake import shape_validators as shape
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery

RequestValidator = Callable[[IntakeQuery], Iterator[Problem]]

VALIDATORS: Mapping[str, RequestValidator] = {
    "session-type": shape.session_type,
    "cluster-size": shape.cluster_size,
    "array-size": shape.array_size,
    "cluster-minimum": shape.cluster_minimum,
    "kernel-limit": shape.kernel_limit,
    "group-names": shape.group_names,
    "partitions": shape.partitions,
    "priority-limit": shape.priority,
    "evictions": shape.evictions,
    "starting-time": shape.starting_time,
    "durations": shape.durations,
    "mounts": shape.mounts,
    "folders": shape.folders,
    "service-ports": shape.service_ports,
    "network": shape.network,
    "dependency-count": shape.dependency_count,
    "images": content.images,
    "commands": content.commands,
    "environment": content.environment,
    "secrets": content.secrets,
    "labels": content.labels,
    "spec-size": content.spec_size,
    "names": reference.names,
    "group-membership": reference.membership,
    "isolation": reference.isolation,
    "queues": reference.queues,
    "bookings": reference.bookings,
    "dependencies": reference.dependencies,
}


def problems_with(query: IntakeQuery) -> list[Problem]:
    """Problems found by all validators, in their order, without duplicates."""
    found = (problem for validate in VALIDATORS.values() for problem in validate(query))
    return list(dict.fromkeys(found))


def are_about_folders(problems: Sequence[Problem], query: IntakeQuery) -> bool:
    """Whether nothing is wrong but the folders of agents that the request names."""
    return bool(problems) and set(problems) <= set(shape.folders(query))
