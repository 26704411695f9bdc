"""Validates image, command, environment and labels of the kernels of a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sokovan.domain.checks import require_labels
from sokovan.domain.cluster.image import is_process_image
from sokovan.domain.commands import ENVIRONMENT_BYTES_MAX, require_command, require_environment
from sokovan.domain.constraints.labels import require_session_labels
from sokovan.domain.errors import listed, quoted
from sokovan.domain.ids import is_name
from sokovan.domain.problems import Problem, problems_of
from sokovan.domain.session import SessionType
from sokovan.orchestrator.sessions.intake.kernel_groups import KernelGroup, kernel_groups
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery
from sokovan.orchestrator.sessions.launch import RESERVED

# Commands and variables of all kernels must fit into one row of the store.
SPEC_BYTES_MAX = 16 << 20
ARRAY_BYTES_MAX = 64 << 20


def images(query: IntakeQuery) -> Iterator[Problem]:
    """The image exists, for the requested architecture."""
    architecture = query.request.architecture
    if architecture and not is_name(architecture):
        yield Problem("architecture", f"{quoted(architecture)} is not a valid architecture name")
    for group in kernel_groups(query.request):
        known = query.context.images.get(group.image, ())
        fits = any(not architecture or image.architecture == architecture for image in known)
        if fits or is_process_image(group.image):
            continue
        if known:
            there = listed(image.architecture for image in known)
            problem = f"image {group.image} is available for {there}, not for {architecture}"
        else:
            there = "available: `host`, `venv:NAME` and those of the catalog (docs/howto/images.md)"
            problem = f"there is no image {quoted(group.image)}; {there}"
        yield Problem(group.place("image"), problem)


def commands(query: IntakeQuery) -> Iterator[Problem]:
    """The command is a list of strings; batch and inference sessions require one."""
    for group in kernel_groups(query.request):
        place = group.place("command")
        yield from problems_of(place, require_command, group.command, what="command")
        if not group.command and needs_command(query.request.session_type, group.image):
            own = f": the image {group.image} has none of its own" if is_process_image(group.image) else ""
            yield Problem(place, f"a session of type {query.request.session_type} needs a command to run{own}")


def needs_command(session_type: SessionType, image: str) -> bool:
    """Whether sessions of this type and image require a command."""
    if session_type is SessionType.BATCH:
        return True
    return session_type is SessionType.INFERENCE and is_process_image(image)


def environment(query: IntakeQuery) -> Iterator[Problem]:
    """Variables have valid names, none that the system sets, and a limited size."""
    for group in kernel_groups(query.request):
        place = group.place("environment")
        for name, value in group.environment.items():
            if name in RESERVED:
                yield Problem(f"{place}/{name}", "is set by the system for every kernel")
            else:
                yield from problems_of(place, require_environment, {name: value}, what="kernel")
        size = _bytes_of(group.environment)
        if len(group.environment) > 1 and size > ENVIRONMENT_BYTES_MAX:
            yield Problem(place, f"{size} bytes are more than {ENVIRONMENT_BYTES_MAX}")


def secrets(query: IntakeQuery) -> Iterator[Problem]:
    """Secret variables obey the rules of open ones, and are not among them.

    Both together have one limit.
    """
    given = query.request.secrets
    for name in sorted(given.keys() & RESERVED):
        yield Problem(f"secrets/{name}", "is set by the system for every kernel")
    yield from problems_of("secrets", require_environment, given, what="session", field="secrets")
    for group in kernel_groups(query.request):
        for name in sorted(given.keys() & group.environment.keys()):
            yield Problem(f"secrets/{name}", "is among the open variables as well; give it once")
        if given and _bytes_of(given) + _bytes_of(group.environment) > ENVIRONMENT_BYTES_MAX:
            yield Problem("secrets", f"with the open variables more than {ENVIRONMENT_BYTES_MAX} bytes")


def _bytes_of(variables: Mapping[str, str]) -> int:
    return sum(len(name) + len(value.encode(errors="replace")) for name, value in variables.items())


def labels(query: IntakeQuery) -> Iterator[Problem]:
    """Labels and requirements have valid names and values."""
    of_session = list(problems_of("labels", require_session_labels, query.request.labels, what="session"))
    yield from of_session
    for group in kernel_groups(query.request):
        if not of_session:  # Kernels inherit the labels of their session.
            yield from problems_of(group.place("labels"), require_labels, group.labels, what="kernel")
        yield from problems_of(group.place("require"), require_labels, group.require, what="kernel")


def spec_size(query: IntakeQuery) -> Iterator[Problem]:
    """The commands, variables and labels of all kernels fit into the store."""
    size = sum(group.size * _carried_bytes(group) for group in kernel_groups(query.request) if group.size > 0)
    if size > SPEC_BYTES_MAX:
        problem = f"{size} bytes of commands, variables and labels over all kernels are more than {SPEC_BYTES_MAX}"
        yield Problem("environment", problem)
    array = query.request.array
    size += _bytes_of(query.request.secrets)  # each session of an array has its own copy
    if array is not None and size * array.size > ARRAY_BYTES_MAX:
        problem = f"{size} bytes of commands, variables and labels in {array.size} sessions are more than"
        yield Problem("array", f"{problem} {ARRAY_BYTES_MAX}")


def _carried_bytes(group: KernelGroup) -> int:
    texts = [*group.command]
    for mapping in (group.environment, group.labels, group.require):
        texts += [*mapping, *mapping.values()]
    return sum(len(text) for text in texts)
