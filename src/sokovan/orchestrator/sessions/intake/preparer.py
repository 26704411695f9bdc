"""From a request without problems to the session that is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from sokovan.domain.cluster.agent import MOUNTS_ANYWHERE, MOUNTS_LABEL
from sokovan.domain.cluster.image import ARCHITECTURE_DEFAULT
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.problems import InvalidRequest, NameTaken, Problem, problem_text
from sokovan.domain.session import EndPolicy, KernelSpec, SessionSpec, SessionType
from sokovan.domain.tenancy import Owner
from sokovan.orchestrator.sessions.intake.images import is_process_image
from sokovan.orchestrator.sessions.intake.kernel_groups import MAIN, KernelGroup, roles
from sokovan.orchestrator.sessions.intake.reference_validators import queue_of
from sokovan.orchestrator.sessions.intake.requests import SessionRequest
from sokovan.orchestrator.sessions.intake.resolution import ResolvedGroup, resolved
from sokovan.orchestrator.sessions.intake.resource_calculator import ResourceCalculator
from sokovan.orchestrator.sessions.intake.validation import problems_with
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery, group_of
from sokovan.ports.environment import IdSource

# What a session does that is only there to be worked in: nothing, until it is ended.
IDLE = ("tail", "-f", "/dev/null")


class Preparer:
    """Judges requests, and fills in what they leave open."""

    def __init__(
        self, ids: IdSource, names: Callable[[], str], *, calculator: ResourceCalculator | None = None
    ) -> None:
        self._ids, self._names = ids, names
        self._calculator = calculator or ResourceCalculator()

    def prepare(self, asked: IntakeQuery) -> SessionSpec:
        """The session that a request describes. Raises InvalidRequest with all problems."""
        found = resolved(asked, self._calculator)
        problems = [*problems_with(asked), *found.problems]
        if problems or found.scaling_group is None:
            is_name_alone = asked.facts.namesake is not None and len(problems) == 1
            raise (NameTaken if is_name_alone else InvalidRequest)(problems)
        try:
            return self._spec(asked, found.groups, found.scaling_group.name)
        except InvalidInput as error:
            # The nouns have the last word: what no validator asked about is refused as well.
            raise InvalidRequest([Problem("session", problem_text(error))]) from error

    def _spec(
        self, asked: IntakeQuery, groups: tuple[ResolvedGroup, ...], scaling_group: ScalingGroupName
    ) -> SessionSpec:
        request = asked.request
        total, by_group = minimums(request, [one.group for one in groups])
        return SessionSpec(
            session_id=SessionId(self._ids.new("s")),
            kernels=tuple(kernel for group in groups for kernel in self._kernels(request, group)),
            session_type=request.session_type,
            owner=identity(asked),
            scaling_group=scaling_group,
            queue=QueueName(queue_of(asked)),
            priority=request.priority,
            min_kernels=total,
            group_minimums=by_group,
            topology=request.topology,
            dependencies=tuple(dict.fromkeys(asked.facts.dependencies[t][0].session_id for t in request.depends_on)),
            starts_at_ms=request.starts_at_ms,
            time_limit_s=request.time_limit_s,
            preemptible=request.preemptible,
            name=request.name or self._names(),
            mounts=request.mounts,
            stop_grace_s=request.stop_grace_s,
            on_agent_lost=request.on_agent_lost,
            ends_with=request.ends_with or ending(request.session_type),
            tolerates_failures=request.tolerates_failures,
            ports=request.ports,
        )

    def _kernels(self, request: SessionRequest, resolved_group: ResolvedGroup) -> Iterator[KernelSpec]:
        group, image = resolved_group.group, resolved_group.image
        for role in roles(group):
            yield KernelSpec(
                kernel_id=KernelId(self._ids.new("k")),
                slots=resolved_group.slots,
                group=role,
                image=group.image,
                architecture=ARCHITECTURE_DEFAULT if image is None else image.architecture,
                labels=group.labels,
                require={**_needs_of(request, group), **group.require},
                preemptible=request.preemptible,
                command=group.command or (IDLE if is_process_image(group.image) else ()),
                environment=group.environment,
            )


def _needs_of(request: SessionRequest, group: KernelGroup) -> dict[str, str]:
    """What an agent must be able to do for these mounts.

    A process without a sandbox sees the machine as it is: whoever wants a folder
    elsewhere waits for a machine that can do it, and is told so, before anything starts.
    """
    moved = any(PurePosixPath(mount.source) != PurePosixPath(mount.target) for mount in request.mounts)
    return {MOUNTS_LABEL: MOUNTS_ANYWHERE} if moved and is_process_image(group.image) else {}


def identity(asked: IntakeQuery) -> Owner:
    """Whom the session counts against: the caller, in the group that was asked for."""
    return replace(asked.caller.owner, group=group_of(asked.request, asked.caller))


def minimums(request: SessionRequest, groups: list[KernelGroup]) -> tuple[int | None, dict[str, int]]:
    """How many kernels must start together, in all and of each group; None means all.

    An elastic session of equal kernels always has its main one: the others look for it.
    """
    if not request.groups:
        return request.minimum, {} if request.minimum is None else {MAIN: 1}
    if all(group.minimum is None for group in groups):
        return request.minimum, {}
    by_group = {group.name: group.size if group.minimum is None else group.minimum for group in groups}
    return max(request.minimum or 0, sum(by_group.values())), by_group


def ending(session_type: SessionType) -> EndPolicy:
    """Work is done when every kernel is done; a service needs all of its kernels."""
    return EndPolicy.ALL if session_type is SessionType.BATCH else EndPolicy.ANY
