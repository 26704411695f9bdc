"""From the link to the agent and back; the other half is tested with the manager's."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs
from msgspec.structs import replace

from sokovan.agent.inventory import Inventory
from sokovan.agent.journal_records import Tombstone, Tombstones
from sokovan.agent.kernel_table import KernelPhase, ManagedKernel, Token
from sokovan.agent.link.translation import (
    REASON_MAX,
    event_of,
    heartbeat_of,
    hello_of,
    image_status,
    kernel_entries,
    reply_of,
)
from sokovan.agent.messages import CreateRequested, ForgetRequested, PrepareRequested, StopRequested
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import AgentId
from sokovan.domain.records import DETAIL_MAX, Device
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.ports.agent_gateway import ImageReport, ImageState
from sokovan.ports.agent_states import DeviceFigures
from sokovan.ports.runtime import KernelState
from sokovan.wire import frames
from sokovan.wire.link_codec import decode, encode
from tests.unit.agent.supervisor_harness import SupervisorHarness, key, launch, seen

TOKEN = Token(1, 7)
CREATE = frames.CreateKernel(kernel_id="k1", attempt=2, session_id="s1", image="python", command=("true",))


def asked(ask: frames.Command) -> frames.Request:
    return frames.Request(number=7, incarnation=3, allowed_ms=100, command=ask)


@pytest.mark.parametrize(
    ("ask", "event"),
    [
        (CREATE, CreateRequested(TOKEN, 3, replace(CREATE, incarnation=3))),
        (frames.StopKernel("k1", 2, 1.5), StopRequested(TOKEN, 3, key("k1", 2), 1.5)),
        (frames.ForgetKernel("k1", 2), ForgetRequested(TOKEN, 3, key("k1", 2))),
        (frames.PrepareImage("python"), PrepareRequested(TOKEN, 3, "python")),
        (frames.ReadLog("k1", 2, 0, 10), None),
        (frames.MeasureKernel("k1", 2), None),
    ],
)
def test_requests_are_events(ask: frames.Command, event: object) -> None:
    assert event_of(asked(ask), TOKEN) == event


@pytest.mark.parametrize(("source", "target"), [("data", "/data"), ("/data", "/data/../etc")])
def test_a_mount_by_a_path_that_is_not_plain_is_refused(source: str, target: str) -> None:
    create = structs.replace(CREATE, mounts=(frames.MountEntry(source, target),))
    with pytest.raises(InvalidSpec):
        event_of(asked(create), TOKEN)


def test_an_agent_says_who_it_is_and_what_it_has() -> None:
    inventory = Inventory(
        agent_id=AgentId("a1"),
        slots=ResourceSlot({"cpu": 4000}),
        architecture="aarch64",
        devices=(Device("gpu0", "cuda.device"),),
        labels={"rack": "r1"},
        kernels_max=5,
    )
    agent = SupervisorHarness()
    agent.create(launch("k1"))
    hello = hello_of(inventory, replace(agent.table, incarnation=4))

    assert (hello.agent_id, hello.incarnation, hello.slots) == ("a1", 4, {"cpu": 4000})
    assert hello.devices == (frames.DeviceEntry("gpu0", "cuda.device", 1),)
    assert (hello.labels, hello.kernels_max, hello.scaling_group) == ({"rack": "r1"}, 5, "default")
    assert hello.kernels == (frames.KernelEntry("k1", 1, running=False),)
    assert hello.software


def test_a_heartbeat_lists_every_kernel() -> None:
    agent = SupervisorHarness()
    for name in ("b", "a"):
        agent.create(launch(name))
    send_heartbeat = heartbeat_of(agent.table, sequence=1, load={}, devices={})

    assert [entry.kernel_id for entry in send_heartbeat.kernels] == ["a", "b"]
    assert send_heartbeat.faults == {}


def test_a_heartbeat_names_the_faults_and_the_figures_of_devices() -> None:
    table = replace(SupervisorHarness().table, device_faults={"gpu0": "it is lost"})
    figures = DeviceFigures(71, 3 << 30, None, 64)
    beat = heartbeat_of(table, sequence=1, load={}, devices={"gpu1": figures})
    assert decode(encode(beat)) == beat
    assert beat.faults == {"gpu0": "it is lost"}
    assert beat.devices == {"gpu1": frames.DeviceLoad(71, 3 << 30, None, 64)}


def test_words_that_are_too_long_for_a_frame_are_cut() -> None:
    agent = SupervisorHarness()
    agent.start(launch("k"))
    agent.observe(seen("k", state=KernelState.EXITED, exit_code=127, reason="x" * 99_999))
    assert len(kernel_entries(agent.table)[0][0].reason) == REASON_MAX
    assert len(image_status(ImageReport("i", ImageState.FAILED, "x" * 99_999)).detail) == DETAIL_MAX


@pytest.mark.slow
def test_a_report_of_any_number_of_kernels_fits_into_a_frame() -> None:
    ended = ManagedKernel(
        slots=NO_SLOTS, phase=KernelPhase.EXITED, exit_code=1, reason="\N{SNOWMAN}" * 400, settled=0, started=True
    )
    running = replace(ended, phase=KernelPhase.RUNNING, exit_code=None, reason="")
    old, new = [key(f"old-{n}") for n in range(3_000)], [key(f"new-{n}") for n in range(3_000)]
    kernels = {**dict.fromkeys((*old, *new), ended), **{key(f"runs-{n}"): running for n in range(100)}}
    images = {f"i{n}": ImageReport(f"i{n}", ImageState.FAILED, "x" * DETAIL_MAX) for n in range(256)}
    table = replace(
        SupervisorHarness().table,
        kernels=kernels,
        images=images,
        tombstones=Tombstones(dict.fromkeys(old, Tombstone(1))),
    )
    beat, hello = (
        heartbeat_of(table, sequence=1, load={}, devices={}),
        hello_of(Inventory(AgentId("a1"), NO_SLOTS, "x86_64"), table),
    )
    for frame in (beat, hello):
        assert decode(encode(frame)) == frame
        assert frame.partial
        listed = Counter(entry.kernel_id.partition("-")[0] for entry in frame.kernels)
        assert listed["runs"] == 100
        assert listed["new"] > 0 < listed["old"]
    assert len(beat.images) == 256


def test_nothing_to_say_is_done() -> None:
    assert reply_of(None) == frames.Done()
