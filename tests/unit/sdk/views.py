"""Session views for tests of clients."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from sokovan.wire.api.arrays import ArrayView
from sokovan.wire.api.sessions import KernelView, SessionView

KERNEL = KernelView(
    id="k-1",
    index=0,
    role="main",
    group="",
    status="running",
    agent="a1",
    attempt=1,
    exit_code=None,
    slots={"cpu": 1000, "mem": 1 << 30},
    devices={},
    image="host",
    since="2030-01-01T00:00:00.000Z",
)
SESSION = SessionView(
    id="s-1",
    name="ddp",
    type="batch",
    status="running",
    result=None,
    goal="run",
    user="ada",
    group="nlp",
    domain="default",
    scaling_group="default",
    queue="research",
    priority=0,
    image="host",
    command=["python", "train.py"],
    slots={"cpu": 4000, "cuda.device": 32, "mem": 4 << 30},
    size=1,
    minimum=1,
    kernels=[KERNEL],
    depends_on=[],
    topology=None,
    hypernode=None,
    submitted_at="2030-01-01T00:00:00.000Z",
    scheduled_at="2030-01-01T00:00:01.000Z",
    since="2030-01-01T00:00:02.000Z",
    ended_at=None,
    starts_at=None,
    time_limit_s=None,
    reason=None,
    reason_detail=None,
    exit_code=None,
    version=5,
)

ARRAY = ArrayView(
    id="a-1",
    name="sweep",
    status="running",
    result=None,
    user="ada",
    group="nlp",
    domain="default",
    scaling_group="default",
    queue="research",
    indexes="0-9%2",
    size=10,
    limit=2,
    submitted_at="2030-01-01T00:00:00.000Z",
    succeeded=2,
    failed=1,
    cancelled=0,
    counts={"pending": 5, "running": 2, "terminated": 3},
)


def session(**changes: Any) -> SessionView:
    """A running session with changes; the figures of its kernels follow from them."""
    kernels: list[KernelView] = changes.get("kernels", SESSION.kernels)
    figures = {
        "kernel_counts": dict(Counter(one.status for one in kernels)),
        "agents": len({one.agent for one in kernels} - {None}),
        "exited": sum(one.exit_code is not None for one in kernels),
    }
    return replace(SESSION, **{**figures, **changes})


def pending(**changes: Any) -> SessionView:
    """A pending session."""
    kernel = replace(KERNEL, status="pending", agent=None)
    return session(**{"status": "pending", "kernels": [kernel], "scheduled_at": None, "version": 1, **changes})


def ended(exit_code: int = 0, **changes: Any) -> SessionView:
    """A terminated session."""
    kernel = replace(KERNEL, status="terminated", exit_code=exit_code)
    result = "success" if exit_code == 0 else "failure"
    plain = {"status": "terminated", "kernels": [kernel], "exit_code": exit_code, "result": result, "version": 9}
    return session(**{**plain, "ended_at": "2030-01-01T00:00:05.000Z", **changes})
