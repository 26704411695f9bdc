"""Contract of `ports.agent_gateway`, on an agent that runs real kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentGateway, AgentRefused, AgentUnreachable, GoneProof, ImageState
from sokovan.testing.clock import Elapse, until
from sokovan.testing.contracts import expect
from sokovan.wire.frames import CreateKernel

UNKNOWN_AGENT = AgentId("nobody")


@dataclass(frozen=True, slots=True)
class GatewaySubject:
    """A gateway with one agent; each check uses its own kernels.

    `long_running` creates a kernel that prints "hello" and runs until it is stopped, with
    few `cpu`; `capacity` is the total cpu. `image` is one that the agent can prepare.
    """

    gateway: AgentGateway
    agent_id: AgentId
    incarnation: int
    long_running: Callable[[str], CreateKernel]
    capacity: int
    image: str
    elapse: Elapse

    async def create(self, launch: CreateKernel) -> None:
        """Create a kernel."""
        await self.gateway.create_kernel(self.agent_id, self.incarnation, launch)

    async def stop(self, launch: CreateKernel, *, attempt: int = 1) -> GoneProof:
        """Request once that a kernel stops."""
        return await self.gateway.stop_kernel(
            self.agent_id, self.incarnation, KernelId(launch.kernel_id), attempt, grace_s=1.0
        )

    async def end(self, launch: CreateKernel) -> GoneProof:
        """Request that a kernel stops until it is gone."""
        proofs: list[GoneProof] = []

        async def is_gone() -> bool:
            proofs.append(await self.stop(launch))
            return proofs[-1].gone

        await until(is_gone, elapse=self.elapse)
        return proofs[-1]

    async def log(self, launch: CreateKernel) -> bytes:
        """The output of a kernel so far."""
        part = await self.gateway.read_log(
            self.agent_id, KernelId(launch.kernel_id), launch.attempt, offset=0, limit=1000
        )
        return part.data


async def _refused(subject: GatewaySubject, launch: CreateKernel, *, incarnation: int | None = None) -> None:
    requested = subject.incarnation if incarnation is None else incarnation
    try:
        await subject.gateway.create_kernel(subject.agent_id, requested, launch)
    except AgentRefused:
        return
    raise AssertionError(f"{launch.kernel_id} was created for incarnation {requested}")


async def a_repeated_create_request_starts_one_kernel(subject: GatewaySubject) -> None:
    """Requests are repeated after a lost response, which must start nothing twice."""
    launch = subject.long_running("once")
    for _ in range(3):
        await subject.create(launch)

    async def has_output() -> bool:
        return await subject.log(launch) != b""

    await until(has_output, elapse=subject.elapse)
    expect(await subject.log(launch) == b"hello\n", "the kernel was started more than once")
    await subject.end(launch)


async def a_kernel_for_another_incarnation_is_refused(subject: GatewaySubject) -> None:
    """A decision about one incarnation of the agent must not be applied to another."""
    for incarnation in (subject.incarnation - 1, subject.incarnation + 1):
        await _refused(subject, subject.long_running("other"), incarnation=incarnation)


async def a_running_kernel_is_gone_only_after_it_has_ended(subject: GatewaySubject) -> None:
    """Then every response has the exit code."""
    launch = subject.long_running("ends")
    await subject.create(launch)
    first = await subject.end(launch)
    expect(first.exit_code is not None, "the exit code is missing")
    again = await subject.stop(launch)
    expect(again.gone and again.exit_code == first.exit_code, "the second response about an ended kernel differs")


async def a_kernel_that_is_gone_is_never_created_again(subject: GatewaySubject) -> None:
    """A delayed create request must be refused."""
    launch = subject.long_running("never-again")
    await subject.create(launch)
    await subject.end(launch)
    await _refused(subject, launch)
    await subject.gateway.forget_kernel(
        subject.agent_id, subject.incarnation, KernelId(launch.kernel_id), launch.attempt
    )
    await _refused(subject, launch)


async def an_unknown_kernel_is_gone_at_once(subject: GatewaySubject) -> None:
    """Its create request, which arrives later, is refused."""
    launch = subject.long_running("unheard-of")
    expect((await subject.stop(launch)).gone, "what never was is not gone")
    await _refused(subject, launch)


async def the_next_attempt_waits_for_the_end_of_the_one_before(subject: GatewaySubject) -> None:
    """A kernel never runs twice at the same time."""
    launch = subject.long_running("twice")
    await subject.create(launch)
    await _refused(subject, replace(launch, attempt=2))
    await subject.end(launch)
    await subject.create(replace(launch, attempt=2))
    await subject.gateway.stop_kernel(subject.agent_id, subject.incarnation, KernelId(launch.kernel_id), 2, grace_s=0.0)


async def a_kernel_beyond_the_capacity_is_refused(subject: GatewaySubject) -> None:
    """The agent checks its capacity itself."""
    whole = replace(subject.long_running("whole"), slots={"cpu": subject.capacity})
    await _refused(subject, replace(whole, slots={"cpu": subject.capacity + 1}))
    await _refused(subject, replace(whole, slots={"no-such-slot": 1}))


async def a_running_kernel_is_not_forgotten(subject: GatewaySubject) -> None:
    """An ended kernel is, with its output; forgetting it again is no error."""
    launch = subject.long_running("kept")
    await subject.create(launch)
    try:
        await subject.gateway.forget_kernel(subject.agent_id, subject.incarnation, KernelId(launch.kernel_id), 1)
    except AgentRefused:
        pass
    else:
        raise AssertionError("a running kernel was forgotten")
    await subject.end(launch)
    for _ in range(2):
        await subject.gateway.forget_kernel(subject.agent_id, subject.incarnation, KernelId(launch.kernel_id), 1)

    async def is_unreadable() -> bool:
        try:
            await subject.log(launch)
        except AgentRefused:
            return True
        return False

    await until(is_unreadable, elapse=subject.elapse)


async def output_is_read_in_parts_up_to_its_end(subject: GatewaySubject) -> None:
    """Offsets count bytes, and the last part is marked."""
    launch = subject.long_running("speaks")
    await subject.create(launch)

    async def has_output() -> bool:
        return await subject.log(launch) == b"hello\n"

    await until(has_output, elapse=subject.elapse)
    part = await subject.gateway.read_log(subject.agent_id, KernelId(launch.kernel_id), 1, offset=1, limit=3)
    expect((part.offset, part.data, part.end) == (1, b"ell", False), "a part is not the requested one")
    await subject.end(launch)
    rest = await subject.gateway.read_log(subject.agent_id, KernelId(launch.kernel_id), 1, offset=4, limit=100)
    expect((rest.data, rest.end) == (b"o\n", True), "the end of the output is not marked")


async def a_running_kernel_is_measured(subject: GatewaySubject) -> None:
    """One that has ended is not."""
    launch = subject.long_running("measured")
    await subject.create(launch)

    async def is_counted() -> bool:
        try:
            use = await subject.gateway.measure(subject.agent_id, KernelId(launch.kernel_id), 1)
        except AgentRefused:  # it is being started
            return False
        return use.sampled_ms > 0 and (use.processes or 0) >= 1

    await until(is_counted, elapse=subject.elapse)
    await subject.end(launch)
    for kernel in (launch.kernel_id, "unknown"):
        try:
            await subject.gateway.measure(subject.agent_id, KernelId(kernel), 1)
        except AgentRefused:
            continue
        raise AssertionError(f"kernel {kernel} was measured, and does not run")


async def an_image_is_prepared_in_the_background(subject: GatewaySubject) -> None:
    """Each response has the progress, until the image is ready."""

    async def is_ready() -> bool:
        report = await subject.gateway.prepare_image(subject.agent_id, subject.incarnation, subject.image)
        expect(report.image == subject.image, "the report is of another image")
        expect(report.state is not ImageState.FAILED, f"the image failed: {report.detail}")
        return report.state is ImageState.READY

    await until(is_ready, elapse=subject.elapse)


async def an_agent_without_a_link_is_unreachable(subject: GatewaySubject) -> None:
    """AgentUnreachable, not AgentRefused: the agent may come back."""
    expect(subject.gateway.connected(subject.agent_id), "the agent is not connected")
    expect(not subject.gateway.connected(UNKNOWN_AGENT), "an agent that never was is connected")
    try:
        await subject.gateway.stop_kernel(UNKNOWN_AGENT, 1, KernelId("k"), 1, grace_s=0.0)
    except AgentUnreachable:
        return
    raise AssertionError("an agent that never was has answered")


CHECKS = (
    a_repeated_create_request_starts_one_kernel,
    a_kernel_for_another_incarnation_is_refused,
    a_running_kernel_is_gone_only_after_it_has_ended,
    a_kernel_that_is_gone_is_never_created_again,
    an_unknown_kernel_is_gone_at_once,
    the_next_attempt_waits_for_the_end_of_the_one_before,
    a_kernel_beyond_the_capacity_is_refused,
    a_running_kernel_is_not_forgotten,
    output_is_read_in_parts_up_to_its_end,
    a_running_kernel_is_measured,
    an_image_is_prepared_in_the_background,
    an_agent_without_a_link_is_unreachable,
)
