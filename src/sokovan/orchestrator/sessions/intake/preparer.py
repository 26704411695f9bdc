"""Turns a valid request into the session specification that is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sokovan.domain.cluster.image import Image, is_process_image
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, AgentId, ArrayId, KernelId, QueueName, SessionId
from sokovan.domain.problems import FolderRefused, InvalidRequest, NameTaken, PrivateScalingGroup, Problem, problem_text
from sokovan.domain.session import EndPolicy, KernelSpec, SessionSpec, SessionType
from sokovan.domain.session_request import SessionRequest
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.images import choose_image, image_digests, mount_requirements
from sokovan.orchestrator.sessions.intake.kernel_groups import MAIN, KernelGroup, kernel_groups, roles
from sokovan.orchestrator.sessions.intake.memory_calculator import memory_defaults
from sokovan.orchestrator.sessions.intake.reference_validators import names, queue_of
from sokovan.orchestrator.sessions.intake.resource_calculator import ResourceCalculator
from sokovan.orchestrator.sessions.intake.scaling_group_resolver import (
    GroupChoice,
    ScalingGroupResolver,
    disk_limit,
    group_needs,
    policy_minimums,
    slot_problems,
)
from sokovan.orchestrator.sessions.intake.validation_context import (
    IntakeQuery,
    array_dependencies,
    owner_of,
    session_dependencies,
)
from sokovan.orchestrator.sessions.intake.validators import are_about_folders, problems_with
from sokovan.ports.environment import IdSource

# The command of an interactive process session without one: does nothing until the session is terminated.
IDLE = ("tail", "-f", "/dev/null")


@dataclass(frozen=True, slots=True)
class ResolvedGroup:
    """A kernel group with its image and the slots of each of its kernels."""

    group: KernelGroup
    image: Image | None
    slots: ResourceSlot


@dataclass(frozen=True, slots=True)
class Resolution:
    """Scaling group and kernel groups of a request, and the problems found."""

    choice: GroupChoice
    groups: tuple[ResolvedGroup, ...]
    problems: tuple[Problem, ...]

    @property
    def scaling_group(self) -> ScalingGroup | None:
        """The chosen scaling group; None if there is none."""
        return self.choice.group


class PreparedSession(NamedTuple):
    """A session to store, and why it got its scaling group."""

    spec: SessionSpec
    why_group: str = ""


class Preparer:
    """Validates requests and fills in defaults."""

    def __init__(
        self, ids: IdSource, names: Callable[[], str], *, calculator: ResourceCalculator | None = None
    ) -> None:
        self._ids, self._names = ids, names
        self._calculator = calculator or ResourceCalculator()

    def prepare(self, query: IntakeQuery) -> PreparedSession:
        """Build the requested session. Raises InvalidRequest with all problems."""
        resolution = resolve(query, self._calculator)
        query = replace(query, scaling_group=resolution.scaling_group)
        problems = [*problems_with(query), *resolution.problems]
        if problems or resolution.scaling_group is None:
            raise _refusal(query, resolution.choice, problems)
        try:
            spec = self._spec(query, resolution.groups, resolution.scaling_group)
        except InvalidInput as error:
            # Domain constructors validate again, also values that no validator checks.
            where = error.path if isinstance(error, InvalidSpec) else "session"
            raise InvalidRequest([Problem(where, problem_text(error))]) from error
        return PreparedSession(spec, resolution.choice.why)

    def _spec(self, query: IntakeQuery, groups: tuple[ResolvedGroup, ...], scaling_group: ScalingGroup) -> SessionSpec:
        request = query.request
        total, by_group = minimums(request, [one.group for one in groups])
        array = None if request.array is None else request.array.first_member(ArrayId(self._ids.new("a")))
        name = request.name or self._names()
        return SessionSpec(
            **{
                **request.options(),
                "name": name if array is None else array.named(name),
                "idle_timeout_s": scaling_group.idle_timeout_of(request.session_type, request.idle_timeout_s),
            },
            session_id=SessionId(self._ids.new("s")),
            kernels=tuple(kernel for group in groups for kernel in self._kernels(request, group)),
            owner=owner_of(query),
            scaling_group=scaling_group.name,
            queue=QueueName(queue_of(query)),
            min_kernels=total,
            group_minimums=by_group,
            dependencies=session_dependencies(query),
            array_dependencies=array_dependencies(query),
            array=array,
            ends_with=request.ends_with or ending(request.session_type),
            owns_folders=query.context.is_alone,
            isolated_network=scaling_group.isolated_network,
            secrets=tuple(sorted(request.secrets)),
            kernel_disk_max=disk_limit(query),
            image_digests=image_digests([one.image for one in groups]),
        )

    def copied(self, spec: SessionSpec, query: IntakeQuery) -> SessionSpec:
        """The requested session, equal to another one but for its name and its ids.

        Raises InvalidRequest if the name is not valid, or taken.
        """
        check_name(query)
        return spec.copied(self._ids.new, name=query.request.name or self._names(), array=spec.array)

    def _kernels(self, request: SessionRequest, resolved_group: ResolvedGroup) -> Iterator[KernelSpec]:
        # Those of a role are equal but for their ids.
        made: dict[str, KernelSpec] = {}
        for role in roles(resolved_group.group):
            kernel_id = KernelId(self._ids.new("k"))
            if role in made:
                yield made[role].with_id(kernel_id)
            else:
                made[role] = _kernel(request, resolved_group, kernel_id, role)
                yield made[role]


def _kernel(request: SessionRequest, resolved_group: ResolvedGroup, kernel_id: KernelId, role: str) -> KernelSpec:
    group, image = resolved_group.group, resolved_group.image
    return KernelSpec(
        kernel_id=kernel_id,
        slots=resolved_group.slots,
        group=role,
        image=group.image,
        architecture=ARCHITECTURE_DEFAULT if image is None else image.architecture,
        labels=group.labels,
        require={**mount_requirements(request.mounts, group.image), **group.require},
        priority=group.priority,
        nominated=AgentId(group.nominated) if group.nominated else None,
        preemptible=request.preemptible,
        command=group.command or (IDLE if is_process_image(group.image) else ()),
        environment=group.environment,
    )


def resolve(query: IntakeQuery, calculator: ResourceCalculator) -> Resolution:
    """Choose the scaling group, images and slots of a request.

    They depend on each other: the scaling group has a usual architecture, that selects
    the image, and the image sets the minimum slots of a kernel.
    """
    pools, groups = query.context.pools, kernel_groups(query.request)
    choice = ScalingGroupResolver(query.context.scaling_groups, pools).choose(
        query.request.scaling_group, group_needs(query, groups, calculator)
    )
    scaling_group, problems = choice.group, list(choice.problems)
    query = replace(query, scaling_group=scaling_group)
    defaults = memory_defaults(query)
    least = policy_minimums(query)
    resolved: list[ResolvedGroup] = []
    for group in groups:
        image = _image(query, group)
        where = group.place("resources")
        memory = None if defaults is None else defaults.bytes_for
        slots, invalid = calculator.calculate(group.resources, image, where=where, memory=memory, minimums=least)
        problems += invalid
        if scaling_group is not None:
            problems += slot_problems(scaling_group, pools, slots, where=where)
        resolved.append(ResolvedGroup(group, image, slots))
    return Resolution(choice, tuple(resolved), tuple(problems))


def check_name(query: IntakeQuery) -> None:
    """Validate the name of a request that is valid else. Raises InvalidRequest."""
    problems = list(names(query))
    if problems:
        raise _name_refusal(query, problems)


def _name_refusal(query: IntakeQuery, problems: Sequence[Problem]) -> InvalidRequest:
    is_name_alone = query.context.namesake is not None and len(problems) == 1
    return (NameTaken if is_name_alone else InvalidRequest)(problems)


def _refusal(query: IntakeQuery, choice: GroupChoice, problems: Sequence[Problem]) -> InvalidRequest:
    """The error of a request with problems; the clearest code that applies."""
    if choice.is_private:
        return PrivateScalingGroup(problems)
    if are_about_folders(problems, query):
        return FolderRefused(problems)
    return _name_refusal(query, problems)


def _image(query: IntakeQuery, group: KernelGroup) -> Image | None:
    pool = None if query.scaling_group is None else query.context.pools.get(query.scaling_group.name)
    preferred = ARCHITECTURE_DEFAULT if pool is None else pool.architecture
    known = query.context.images.get(group.image, ())
    return choose_image(group.image, known, architecture=query.request.architecture, preferred=preferred)


def minimums(request: SessionRequest, groups: list[KernelGroup]) -> tuple[int | None, dict[str, int]]:
    """How many kernels must start together, in total and per group; None means all.

    An elastic session of equal kernels always includes its main kernel: the others connect to it.
    """
    if not request.groups:
        return request.minimum, {} if request.minimum is None else {MAIN: 1}
    if all(group.minimum is None for group in groups):
        return request.minimum, {}
    by_group = {group.name: group.size if group.minimum is None else group.minimum for group in groups}
    return max(request.minimum or 0, sum(by_group.values())), by_group


def ending(session_type: SessionType) -> EndPolicy:
    """The default end policy: batch ends with its last kernel, a service with any."""
    return EndPolicy.ALL if session_type is SessionType.BATCH else EndPolicy.ANY
