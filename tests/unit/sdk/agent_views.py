"""Agent views for tests of clients."""

from __future__ import annotations

from sokovan.wire.api.fleet import AgentView

AGENT = AgentView(
    id="gpu2",
    status="alive",
    incarnation=1,
    scaling_group="default",
    architecture="x86_64",
    labels={"rack": "r01"},
    slots={"cpu": 192000, "mem": 2048 << 30, "cuda.device": 8},
    used={"cpu": 40000, "mem": 300 << 30, "cuda.device": 5},
    kernels=5,
    kernels_max=None,
    kernel_ports="20000-29999",
    connected=True,
    heartbeat_at="2030-01-01T00:00:00.000Z",
    load={},
    version=1,
)
