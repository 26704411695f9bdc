"""The promises of `ports.agent_gateway`, on an agent that really runs kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import AgentGateway, AgentRefused, AgentUnreachable, GoneProof, ImageState
from sokovan.testing.clock import Elapse, until
from sokovan.testing.contracts import expect
from sokovan.wire.frames import CreateKernel

NOBODY = AgentId("nobody")


@dataclass(frozen=True, slots=True)
class GatewaySubject:
    """A gateway with one agent behind it, whose every check has kernels of its own.

    `lasting` makes a kernel that says "hello" and runs until it is stopped, in a
    `cpu` that many of fit; `capacity` is all the cpu there is. `image` is one that the
    agent can make ready.
    """

    gateway: AgentGateway
    agent_id: AgentId
    incarnation: int
    lasting: Callable[[str], CreateKernel]
    capacity: int
    image: str
    elapse: Elapse

    async def create(self, launch: CreateKernel) -> None:
        """Have a kernel created."""
        await self.gateway.create_kernel(self.agent_id, self.incarnation, launch)

    async def stop(self, launch: CreateKernel, *, attempt: int = 1) -> GoneProof:
        """Ask once for the end of a kernel."""
        return await self.gateway.stop_kernel(
            self.agent_id, self.incarnation, KernelId(launch.kernel_id), attempt, grace_s=1.0
        )

    async def end(self, launch: CreateKernel) -> GoneProof:
        """Ask for the end of a kernel until it is gone."""
        said: list[GoneProof] = []

        async def is_gone() -> bool:
            said.append(await self.stop(launch))
            return said[-1].gone

        await until(is_gone, elapse=self.elapse)
        return said[-1]

    async def log(self, launch: CreateKernel) -> bytes:
        """The output of a kernel so far."""
        part = await self.gateway.read_log(
            self.agent_id, KernelId(launch.kernel_id), launch.attempt, offset=0, limit=1000
        )
        return part.data


async def _refused(subject: GatewaySubject, launch: CreateKernel, *, incarnation: int | None = None) -> None:
    wanted = subject.incarnation if incarnation is None else incarnation
    try:
        await subject.gateway.create_kernel(subject.agent_id, wanted, launch)
    except AgentRefused:
        return
    raise AssertionError(f"{launch.kernel_id} was created for incarnation {wanted}")


async def a_kernel_is_created_once_however_often_it_is_asked_for(subject: GatewaySubject) -> None:
    """Requests are repeated after a lost answer; that must start nothing twice."""
    launch = subject.lasting("once")
    for _ in range(3):
        await subject.create(launch)

    async def spoke() -> bool:
        return await subject.log(launch) != b""

    await until(spoke, elapse=subject.elapse)
    expect(await subject.log(launch) == b"hello\n", "the kernel was started more than once")
    await subject.end(launch)


async def a_kernel_for_another_incarnation_is_refused(subject: GatewaySubject) -> None:
    """What was decided about one life of the agent must not happen in another."""
    for incarnation in (subject.incarnation - 1, subject.incarnation + 1):
        await _refused(subject, subject.lasting("other"), incarnation=incarnation)


async def a_kernel_that_runs_is_gone_only_after_it_has_ended(subject: GatewaySubject) -> None:
    """Then the agent says so each time, and with its exit code."""
    launch = subject.lasting("ends")
    await subject.create(launch)
    first = await subject.end(launch)
    expect(first.exit_code is not None, "the exit code is not told")
    again = await subject.stop(launch)
    expect(again.gone and again.exit_code == first.exit_code, "the second word on an ended kernel is another")


async def a_kernel_that_is_gone_is_never_created_again(subject: GatewaySubject) -> None:
    """A create that was held up on its way must find a closed door."""
    launch = subject.lasting("never-again")
    await subject.create(launch)
    await subject.end(launch)
    await _refused(subject, launch)
    await subject.gateway.forget_kernel(
        subject.agent_id, subject.incarnation, KernelId(launch.kernel_id), launch.attempt
    )
    await _refused(subject, launch)


async def a_kernel_that_was_never_heard_of_is_gone_at_once(subject: GatewaySubject) -> None:
    """And its create, which comes too late, is refused."""
    launch = subject.lasting("unheard-of")
    expect((await subject.stop(launch)).gone, "what never was is not gone")
    await _refused(subject, launch)


async def the_next_attempt_waits_for_the_end_of_the_one_before(subject: GatewaySubject) -> None:
    """One kernel never lives twice."""
    launch = subject.lasting("twice")
    await subject.create(launch)
    await _refused(subject, replace(launch, attempt=2))
    await subject.end(launch)
    await subject.create(replace(launch, attempt=2))
    await subject.gateway.stop_kernel(subject.agent_id, subject.incarnation, KernelId(launch.kernel_id), 2, grace_s=0.0)


async def more_than_there_is_is_refused(subject: GatewaySubject) -> None:
    """The agent counts for itself."""
    whole = replace(subject.lasting("whole"), slots={"cpu": subject.capacity})
    await _refused(subject, replace(whole, slots={"cpu": subject.capacity + 1}))
    await _refused(subject, replace(whole, slots={"no-such-slot": 1}))


async def what_runs_is_not_forgotten(subject: GatewaySubject) -> None:
    """What has ended is, with its output; and forgetting again is no error."""
    launch = subject.lasting("kept")
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
    """Offsets count bytes, and the last part says that it is."""
    launch = subject.lasting("speaks")
    await subject.create(launch)

    async def spoke() -> bool:
        return await subject.log(launch) == b"hello\n"

    await until(spoke, elapse=subject.elapse)
    part = await subject.gateway.read_log(subject.agent_id, KernelId(launch.kernel_id), 1, offset=1, limit=3)
    expect((part.offset, part.data, part.end) == (1, b"ell", False), "a part is not what was asked for")
    await subject.end(launch)
    rest = await subject.gateway.read_log(subject.agent_id, KernelId(launch.kernel_id), 1, offset=4, limit=100)
    expect((rest.data, rest.end) == (b"o\n", True), "the end of the output is not told")


async def an_image_is_made_ready_while_nobody_waits(subject: GatewaySubject) -> None:
    """Each answer says how far it is, until it is ready."""

    async def is_ready() -> bool:
        report = await subject.gateway.prepare_image(subject.agent_id, subject.incarnation, subject.image)
        expect(report.image == subject.image, "the report is of another image")
        expect(report.state is not ImageState.FAILED, f"the image failed: {report.detail}")
        return report.state is ImageState.READY

    await until(is_ready, elapse=subject.elapse)


async def an_agent_without_a_link_is_unreachable(subject: GatewaySubject) -> None:
    """That is no refusal: it may come back."""
    expect(subject.gateway.connected(subject.agent_id), "the agent is not connected")
    expect(not subject.gateway.connected(NOBODY), "an agent that never was is connected")
    try:
        await subject.gateway.stop_kernel(NOBODY, 1, KernelId("k"), 1, grace_s=0.0)
    except AgentUnreachable:
        return
    raise AssertionError("an agent that never was has answered")


CHECKS = (
    a_kernel_is_created_once_however_often_it_is_asked_for,
    a_kernel_for_another_incarnation_is_refused,
    a_kernel_that_runs_is_gone_only_after_it_has_ended,
    a_kernel_that_is_gone_is_never_created_again,
    a_kernel_that_was_never_heard_of_is_gone_at_once,
    the_next_attempt_waits_for_the_end_of_the_one_before,
    more_than_there_is_is_refused,
    what_runs_is_not_forgotten,
    output_is_read_in_parts_up_to_its_end,
    an_image_is_made_ready_while_nobody_waits,
    an_agent_without_a_link_is_unreachable,
)
