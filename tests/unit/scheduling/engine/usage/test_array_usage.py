"""Counts of the running sessions of arrays."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.ids import AgentId
from sokovan.scheduling.engine.usage.array_usage import ArrayUsage
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.little_cluster import kernel, session


def member(name: str, *, runs: bool = False) -> SessionWorkload:
    place = replace(kernel(f"{name}.0"), agent=AgentId("a") if runs else None)
    return replace(session(name), kernels=(place,), array="x", array_limit=3)


def test_running_sessions_and_those_that_start_are_counted() -> None:
    waits = member("t")
    usage = ArrayUsage([member("s", runs=True), waits, session("other")])
    assert usage.running(waits) == 1
    usage.start(waits)
    usage.start(session("other"))
    assert usage.running(waits) == 2
    assert usage.running(session("other")) == 0


def test_only_as_many_sessions_request_a_share_as_may_start() -> None:
    runs, waiting = member("r", runs=True), [member(name) for name in "stu"]
    usage = ArrayUsage([runs, *waiting])
    assert [usage.may_request(one) for one in (runs, *waiting, session("z"))] == [True, True, True, False, True]
