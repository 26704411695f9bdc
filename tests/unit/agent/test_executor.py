"""Instructions are executed concurrently, and their outcome is reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.agent.executor import Executor
from sokovan.agent.messages import (
    EndRemainsInstruction,
    Event,
    ForgetInstruction,
    ImageProgressed,
    PrepareInstruction,
    RemainsEnded,
    StartFinished,
    StartInstruction,
    StopInstruction,
)
from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import ImageReport, ImageState
from sokovan.ports.runtime import KernelRemains
from sokovan.wire.frames import CreateKernel
from tests.integration.agent_rig import comes_true
from tests.integration.tiny_runtime import TinyRuntime
from tests.unit.agent.supervisor_harness import key, launch


class Faulty(TinyRuntime):
    """Fails in ways that no port promises."""

    async def create(self, launch: CreateKernel) -> str:
        if launch.kernel_id == "odd":
            raise OSError("too many open files")
        if launch.kernel_id == "undead":
            raise KernelRemains("pid 7 of the start does not die")
        await super().create(launch)
        return f"traces of {launch.kernel_id}"

    async def end_remains(self, kernel_id: KernelId, attempt: int, traces: str) -> str:
        if not traces:
            raise OSError("no process table")
        return "" if traces == "killable" else await super().end_remains(kernel_id, attempt, traces)

    async def forget(self, kernel_id: str, attempt: int) -> None:
        raise OSError(f"{kernel_id} {attempt} is on a broken disk")


class Rig:
    def __init__(self, root: Path) -> None:
        self.runtime = Faulty(root)
        self.events: list[Event] = []
        self.told: list[str] = []
        self.looks = 0
        self.starts = 0
        self.executor = Executor(
            self.runtime,
            submit=self.events.append,
            observe_soon=self._look,
            started=self._start,
            log=self.told.append,
        )

    def _look(self) -> None:
        self.looks += 1

    def _start(self) -> None:
        self.starts += 1

    def images(self) -> list[tuple[str, ImageState, str]]:
        return [
            (event.report.image, event.report.state, event.report.detail)
            for event in self.events
            if isinstance(event, ImageProgressed)
        ]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    yield made
    await made.executor.close()
    await made.runtime.close()


async def test_a_finished_start_is_reported_and_its_end_observed(rig: Rig) -> None:
    rig.executor.execute(StartInstruction(launch()))
    await comes_true(lambda: rig.starts)

    assert rig.events == [StartFinished(key(), traces="traces of k1")]
    assert rig.looks == 0


async def test_a_start_of_which_something_is_left_is_not_certain_to_have_failed(rig: Rig) -> None:
    rig.executor.execute(StartInstruction(launch("undead")))
    await comes_true(lambda: rig.looks)

    problem = "pid 7 of the start does not die"
    assert rig.events == [StartFinished(key("undead"), problem=problem, code="kernel-remains", certain=False)]
    assert problem in rig.told[0]


async def test_remains_are_ended_or_reported_as_left(rig: Rig) -> None:
    for name, traces in (("a", "killable"), ("b", "stubborn"), ("c", "")):
        rig.executor.execute(EndRemainsInstruction(key(name), traces))
    await comes_true(lambda: len(rig.events) == 3)

    left = {str(event.key.kernel_id): event.left for event in rig.events if isinstance(event, RemainsEnded)}
    assert left["a"] == ""
    assert "nothing is known" in left["b"]
    assert "no process table" in left["c"]
    assert len(rig.told) == 2


async def test_a_start_that_the_runtime_refuses_has_started_nothing_for_certain(rig: Rig) -> None:
    refused = launch("k2")
    rig.executor.execute(StartInstruction(_with_image(refused, "missing")))
    await comes_true(lambda: rig.looks)

    assert rig.events == [StartFinished(key("k2"), problem="image 'missing': it is not here", code="image-unavailable")]


async def test_a_start_that_breaks_in_another_way_is_uncertain(rig: Rig) -> None:
    rig.executor.execute(StartInstruction(launch("odd")))
    await comes_true(lambda: rig.looks)
    [event] = rig.events

    assert isinstance(event, StartFinished)
    assert not event.certain
    assert "too many open files" in event.problem


@pytest.mark.slow
async def test_a_slow_image_delays_no_kernel_and_is_pulled_once(rig: Rig) -> None:
    for _ in range(3):
        rig.executor.execute(PrepareInstruction("slow"))
    rig.executor.execute(StartInstruction(launch()))
    await comes_true(lambda: StartFinished(key(), traces="traces of k1") in rig.events and len(rig.images()) == 2)
    assert rig.images() == [
        ("slow", ImageState.PULLING, ""),
        ("slow", ImageState.PULLING, "half of it is here"),
    ]
    rig.runtime.pull_may_end.set()
    await comes_true(lambda: ImageProgressed(ImageReport("slow", ImageState.READY)) in rig.events)

    assert len(rig.images()) == 3


async def test_an_image_that_is_there_is_ready_at_once(rig: Rig) -> None:
    rig.executor.execute(PrepareInstruction("python"))
    await comes_true(lambda: rig.events)

    assert rig.images() == [("python", ImageState.READY, "")]


@pytest.mark.parametrize("image", ["unknown-one", "broken-one"])
async def test_an_image_that_cannot_be_had_says_why_and_may_be_tried_again(rig: Rig, image: str) -> None:
    rig.runtime.pull_may_end.set()
    for _ in range(2):
        rig.events.clear()
        rig.executor.execute(PrepareInstruction(image))
        await comes_true(lambda: rig.images() and rig.images()[-1][1] is ImageState.FAILED)
        assert rig.images()[-1][2] in {"it is unknown", "the disk is full"}


async def test_a_kernel_is_stopped_and_that_is_looked_at(rig: Rig) -> None:
    rig.executor.execute(StartInstruction(_lasting()))
    await comes_true(rig.runtime.processes)
    rig.executor.execute(StopInstruction(key(), 1.0))

    await comes_true(lambda: rig.looks == 1 and not rig.runtime.processes())


async def test_a_failure_of_the_runtime_is_logged_and_ends_nothing(rig: Rig) -> None:
    rig.executor.execute(ForgetInstruction(key()))
    await comes_true(lambda: rig.told)

    assert "broken disk" in rig.told[0]


async def test_an_agent_that_ends_waits_for_nothing(rig: Rig) -> None:
    rig.executor.execute(PrepareInstruction("slow"))
    async with asyncio.timeout(60):
        await rig.executor.close()


def _with_image(what: CreateKernel, image: str) -> CreateKernel:
    return CreateKernel(what.kernel_id, what.attempt, what.session_id, image, what.command)


def _lasting() -> CreateKernel:
    what = launch()
    return CreateKernel(what.kernel_id, what.attempt, what.session_id, "python", ("sleep", "3600"))
