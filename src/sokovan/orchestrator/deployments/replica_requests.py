"""Turns a revision into the session request of one of its replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.engine import SERVICE_PORT, EngineDefinition, EngineRequest
from sokovan.domain.serving.records import DeploymentRecord, RevisionRecord
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.domain.session import ANY_PORT, ServicePort, SessionType
from sokovan.domain.session_request import SessionRequest
from sokovan.domain.slots import is_accelerator
from sokovan.orchestrator.sessions.intake.resource_calculator import ALIASES

# The generator of an engine's definition.
Define: TypeAlias = Callable[[EngineRequest], EngineDefinition]


@dataclass(frozen=True, slots=True)
class ReplicaRequests:
    """Builds requests with the generators in use."""

    define: Define

    def definition(self, deployment: DeploymentSpec, revision: RevisionSpec, secret: str = "") -> EngineDefinition:
        """How the engine of a replica is started. Raises UnknownEngine, InvalidSpec."""
        return self.define(
            EngineRequest(
                variant=revision.variant,
                model=revision.model,
                served_name=deployment.served_names[0],
                accelerators=accelerators_of(revision),
                secret=secret,
                drain_timeout_s=revision.drain_timeout_s,
                concurrency_max=revision.concurrency_max,
                command=revision.command,
                arguments=revision.arguments,
                environment=revision.environment,
                mounts=tuple(mount.target for mount in revision.mounts),
                probe=revision.probe,
            )
        )

    def definition_of(self, deployment: DeploymentRecord, revision: RevisionRecord) -> EngineDefinition:
        """Like `definition`, of stored objects."""
        return self.definition(deployment.spec, revision.spec)

    def request(
        self, deployment: DeploymentSpec, revision: RevisionSpec, place: ReplicaPlace, secret: str
    ) -> SessionRequest:
        """The session of a replica. Raises UnknownEngine, InvalidSpec."""
        definition = self.definition(deployment, revision, secret)
        return SessionRequest(
            name=f"{deployment.name}.r{place.revision}.{place.ordinal}.{place.attempt}",
            session_type=SessionType.INFERENCE,
            priority=deployment.priority,
            mounts=revision.mounts,
            ports=(ServicePort(SERVICE_PORT, ANY_PORT),),
            image=revision.image or definition.image,
            command=definition.command,
            environment=definition.environment,
            resources=_resources(definition, revision),
            size=revision.kernels,
            scaling_group=deployment.scaling_group or "",
            queue="" if deployment.queue == "default" else deployment.queue,
            group=deployment.owner.group,
            replica=place,
        )


def _resources(definition: EngineDefinition, revision: RevisionSpec) -> dict[str, str]:
    """The amounts of the revision, which may have other names for slots, and those of the engine for the rest."""
    named = {ALIASES.get(slot, slot) for slot in revision.resources}
    return {
        **{slot: amount for slot, amount in definition.resources.items() if slot not in named},
        **revision.resources,
    }


def accelerators_of(revision: RevisionSpec) -> int:
    """The accelerators of one kernel, as far as its amounts are whole numbers."""
    amounts = {ALIASES.get(slot, slot): amount for slot, amount in revision.resources.items()}
    return sum(int(amount) for slot, amount in amounts.items() if is_accelerator(slot) and amount.isdecimal())
