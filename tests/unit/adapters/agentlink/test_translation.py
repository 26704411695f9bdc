"""Nothing is lost between the ports and the link."""

from __future__ import annotations

from msgspec.structs import replace

from sokovan.adapters.agentlink.translation import gone_of, image_of, images_of, log_of, state_of
from sokovan.agent.kernel_table import Token
from sokovan.agent.link.translation import event_of, heartbeat_of, reply_of
from sokovan.agent.messages import CreateRequested, DevicesChecked
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.ports.agent_gateway import GoneProof, ImageReport, ImageState
from sokovan.ports.agent_states import AgentState, DeviceFigures, KernelReport
from sokovan.ports.runtime import KernelState, LogPart
from sokovan.wire.frames import CreateKernel, ImageStatus, KernelEntry, KernelGone, LogData, MountEntry, Request
from sokovan.wire.frames import Heartbeat as HeartbeatFrame
from sokovan.wire.link_codec import decode, encode
from tests.unit.agent.supervisor_harness import SupervisorHarness, key, launch, seen

FULL = CreateKernel(
    kernel_id=KernelId("k1"),
    attempt=3,
    session_id=SessionId("s1"),
    image="venv:torch",
    command=("python", "-c", "print(1)"),
    environment={"A": "b"},
    files={"run.sh": "true"},
    workdir="/work",
    mounts=(MountEntry("/data", "/mnt"), MountEntry("/scratch", "/s", read_only=False)),
    slots={"cpu": 2000, "mem": 1 << 30},
    devices={"cuda.device": ("gpu0", "gpu1")},
    processes_max=100,
    log_bytes_max=1 << 20,
)

FIGURES = DeviceFigures(71, 3 << 30, 4 << 30, None)


def test_a_launch_arrives_as_it_was_sent_with_the_incarnation_of_its_agent() -> None:
    request = Request(number=1, incarnation=2, allowed_ms=100, command=FULL)
    arrived = decode(encode(request))
    assert isinstance(arrived, Request)
    assert event_of(arrived, Token(1, 1)) == CreateRequested(Token(1, 1), 2, replace(FULL, incarnation=2))


def test_results_of_an_agent_arrive_unchanged() -> None:
    for word in (
        GoneProof(gone=True, exit_code=137, detail={"reason": "oom"}),
        GoneProof(gone=True, exit_code=0, by_itself=True),
        GoneProof(gone=False),
    ):
        sent = reply_of(word)
        assert isinstance(sent, KernelGone)
        assert gone_of(sent) == word
    part = reply_of(LogPart(5, b"\xff\x00", end=True))
    assert isinstance(part, LogData)
    assert log_of(part) == LogPart(5, b"\xff\x00", end=True)
    image = reply_of(ImageReport("python", ImageState.PULLING, "1 of 2"))
    assert isinstance(image, ImageStatus)
    assert image_of(image) == ImageReport("python", ImageState.PULLING, "1 of 2")


def test_a_heartbeat_arrives_as_it_was_sent() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe(seen(state=KernelState.EXITED, exit_code=9, reason="signal 9"))
    agent.apply(DevicesChecked({"gpu0": "it is lost"}))
    beat = heartbeat_of(agent.table, sequence=4, load={"load_milli": 1500}, devices={"gpu1": FIGURES})

    assert state_of(AgentId("a1"), beat) == AgentState(
        AgentId("a1"),
        incarnation=1,
        sequence=4,
        kernels=(KernelReport(key().kernel_id, 1, running=False, exit_code=9, reason="signal 9"),),
        load={"load_milli": 1500},
        faults={"gpu0": "it is lost"},
        devices={"gpu1": FIGURES},
    )


def test_every_kernel_of_a_heartbeat_is_translated() -> None:
    beat = HeartbeatFrame(
        incarnation=1, sequence=1, kernels=tuple(KernelEntry(f"k{number}", 1, running=True) for number in range(500))
    )

    assert len(state_of(AgentId("a1"), beat).kernels) == 500


def test_an_unknown_state_of_an_image_is_a_failure() -> None:
    [report] = images_of([ImageStatus("python", "thawing", "slowly")])

    assert report == ImageReport("python", ImageState.FAILED, "thawing: slowly")
