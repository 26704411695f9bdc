"""Machines, pools, queues and images on the wire."""

from __future__ import annotations

from sokovan.wire.api.fleet import AgentChange, ImageBody, QueueBody, ScalingGroupBody
from tests.unit.wire.api.bodies import read_by_both, refused


def test_a_queue_may_leave_its_shares_open() -> None:
    queue = read_by_both(QueueBody, {"name": "research", "weight": 3, "capability": {"gpu": 256}})
    assert queue.capability == {"gpu": 256}
    assert queue.deserved is None


def test_options_of_a_scheduler_are_anything() -> None:
    body = read_by_both(ScalingGroupBody, {"name": "gpu", "scheduler_opts": {"agent_selector": "dispersed"}})
    assert body.scheduler_opts == {"agent_selector": "dispersed"}


def test_misspelt_keys_are_refused() -> None:
    assert "wieght" in refused(QueueBody, {"name": "a", "wieght": 3})
    assert "arch" in refused(ImageBody, {"name": "host", "arch": "x86_64"})
    assert "why" in refused(AgentChange, {"action": "drain", "why": "dimm"})
