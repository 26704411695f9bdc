"""Rows and states built by hand, for tests of pure functions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from sokovan.adapters.sql.allocation.verification import LockedAgent, LockedState
from sokovan.adapters.sql.repositories.sessions.session_rows import KernelRow, SessionRow, slots_text
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.slots import ResourceSlot

OWNER = {"access_key": "k", "user": "u", "group": "g", "domain": "d"}


def kernel_state(name: str, *, slots: dict[str, int] | None = None, **options: Any) -> KernelRow:
    """A kernel, by default pending."""
    values: dict[str, Any] = {
        "kernel_id": KernelId(name),
        "index": 0,
        "status": KernelStatus.PENDING,
        "version": 1,
        "history_sequence": 1,
        "since_ms": 0,
        "attempt": 1,
        "agent_id": None,
        "incarnation": None,
        "sent": False,
        "exit_code": None,
        "slots_text": slots_text(ResourceSlot({"cpu": 1} if slots is None else slots)),
        "devices_text": "{}",
        "architecture": "x86_64",
        "require_text": msgspec.json.encode(options.pop("require", {})).decode(),
    }
    return KernelRow(**{**values, **options})


def session_state(
    name: str, *kernels: KernelRow, status: SessionStatus = SessionStatus.PENDING, goal: Goal = Goal.RUN, **row: Any
) -> SessionRow:
    """A session with these kernels; columns of its row can be given by name."""
    values = {
        "session_id": name,
        "required": len(kernels),
        "scaling_group": "default",
        "session_type": "batch",
        "cause": None,
        "cause_detail": None,
        "result": None,
        "scheduled_ms": None,
        "ended_ms": None,
        "hypernode": None,
        **OWNER,
    }
    stored: Any = SimpleNamespace(**{**values, **row})
    by_id: dict[str, KernelRow] = {kernel.kernel_id: kernel for kernel in kernels}
    return SessionRow(
        row=stored,
        session_id=SessionId(name),
        status=status,
        version=1,
        history_sequence=1,
        since_ms=0,
        goal=goal,
        kernels=by_id,
    )


def locked_agent(**options: Any) -> LockedAgent:
    """An agent, by default with ten cpu free."""
    values: dict[str, Any] = {
        "alive": True,
        "incarnation": 1,
        "architecture": "x86_64",
        "labels": {},
        "free": {"cpu": 10},
        "kernels_left": None,
        "scaling_group": "default",
    }
    return LockedAgent(**{**values, **options})


def locked_state(*sessions: SessionRow, **options: Any) -> LockedState:
    """The locked state of these sessions, by default with agent a1."""
    values: dict[str, Any] = {
        "agents": {AgentId("a1"): locked_agent()},
        "sessions": {session.session_id: session for session in sessions},
        "used": {},
        "limits": {},
        "unmet": (),
    }
    return LockedState(**{**values, **options})
