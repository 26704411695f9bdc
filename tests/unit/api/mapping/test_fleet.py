"""Machines, pools, queues and images, from and to the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.api.mapping.fleet import (
    agent_view,
    amounts,
    image_of,
    image_view,
    queue_of,
    queue_view,
    read_limits,
    scaling_group_of,
    scaling_group_view,
)
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.domain.cluster.scaling_group import SLOT_PRIORITY_DEFAULT, ScalingGroup
from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.ids import AgentId, QueueName, ScalingGroupName
from sokovan.domain.records import AgentRecord
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.ports.agent_states import AgentState
from sokovan.wire.api.fleet import QueueBody

QUEUE = Queue(
    QueueName("fast"),
    weight=3,
    priority=2,
    state=QueueState.CLOSED,
    parent=QueueName("all"),
    reclaimable=False,
    capability=SlotLimits({"cpu": 8500, "cuda.device": 0}),
    deserved=SlotLimits({"cpu": 4000, "cuda.device": 0}),
    guarantee=ResourceSlot({"cpu": 2000}),
)
IMAGE = Image("repo/x:1", "aarch64", "sha256:" + "a" * 64, ResourceSlot({"mem": 1 << 30}))
GROUP = ScalingGroup(
    ScalingGroupName("gpu"),
    "drf",
    {"hierarchy": True},
    ("cpu",),
    slot_priority=("cpu",),
    pending_timeout_s=60,
    mem_per_gpu_bytes=32 << 30,
    mem_per_cpu_bytes=1 << 30,
    allow_best_effort=True,
    best_effort_per_agent_max=3,
    best_effort_per_user_max=2,
)


def test_a_queue_that_was_got_can_be_put_back() -> None:
    assert queue_of(queue_view(QUEUE), QUEUE) == QUEUE
    assert queue_view(QUEUE).capability == {"cpu": "8.5", "cuda.device": "0"}


@pytest.mark.slow
def test_the_root_queue_has_limits_and_cannot_be_closed() -> None:
    assert queue_of(QueueBody(name="root", capability={"cpu": 4}), None).capability["cpu"] == 4000
    with pytest.raises(InvalidSpec, match="the root queue cannot be closed"):
        queue_of(QueueBody(name="root", open=False), None)


def test_a_queue_without_a_parent_stands_under_the_root() -> None:
    plain = queue_of(QueueBody(name="q"), None)
    assert (plain.parent, plain.reclaimable, plain.state) == ("root", True, QueueState.OPEN)
    assert queue_view(plain).parent is None


def test_an_image_that_was_got_can_be_put_back() -> None:
    assert image_of(image_view(IMAGE), None) == IMAGE


def test_a_pool_is_the_same_after_it_was_sent_and_read() -> None:
    full = replace(
        GROUP,
        session_types=(SessionType.BATCH,),
        public=False,
        assigned_to=("group:nlp",),
        default_queue=QueueName("night"),
        lifetime_max_s=60,
        idle_timeout_s=20,
        idle_timeout_max_s=30,
    )
    assert scaling_group_of(scaling_group_view(full), None) == full


def test_a_pool_without_a_slot_priority_has_the_usual_one() -> None:
    body = replace(scaling_group_view(GROUP), slot_priority=[])
    assert scaling_group_of(body, GROUP).slot_priority == SLOT_PRIORITY_DEFAULT


def test_amounts_are_written_as_they_are_read() -> None:
    written = amounts({"cpu": 500, "mem": 4 << 30, "cuda.shares": 250})
    assert written == {"cpu": "0.5", "mem": "4Gi", "cuda.shares": "0.25"}
    assert read_limits(written) == SlotLimits({"cpu": 500, "mem": 4 << 30, "cuda.shares": 250})


@pytest.mark.parametrize("given", [{"CPU": 1}, {"cpu": "x"}, {"cpu": -1}, {"cpu": 0.0001}, {"cpu": True}])
def test_limits_that_cannot_be_read_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        read_limits(given)


def test_a_machine_is_shown_with_what_it_last_said_of_itself() -> None:
    info = AgentInfo(
        AgentId("a1"),
        ResourceSlot({"cpu": 8000}),
        occupied_slots=ResourceSlot({"cpu": 1000}),
        labels={"zone": "a"},
        kernel_count=1,
    )
    state = AgentState(AgentId("a1"), 1, 5, load={"load_milli": 300}, heard_ms=1_893_456_000_500)
    view = agent_view(AgentRecord(info, 4), state, connected=True)
    assert (view.id, view.slots, view.used, view.kernels) == ("a1", {"cpu": 8000}, {"cpu": 1000}, 1)
    assert (view.load, view.connected, view.version, view.labels) == ({"load_milli": 300}, True, 4, {"zone": "a"})
    assert view.heartbeat_at == "2030-01-01T00:00:00.500Z"
    assert view.kernel_ports == "20000-29999"
    silent = agent_view(AgentRecord(info, 4), None, connected=False)
    assert (silent.load, silent.heartbeat_at) == ({}, None)
