"""Periodic tasks: at once after idleness, coalesced in between, always after a while."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.orchestrator.periodic_tasks import BURST_S, PAUSE_MAX_S, PeriodicTask, TaskFailure, TaskSpec
from sokovan.testing.clock import VirtualClock


class Rounds:
    """A task whose rounds are counted, with the time of each."""

    def __init__(self, **options: object) -> None:
        self.clock = VirtualClock()
        self.hints = InProcessHints(self.clock)
        self.at_ms: list[int] = []
        self.failures: list[TaskFailure] = []
        self.outcome: Callable[[], bool] = lambda: False
        self.takes_s = 0.0
        spec = TaskSpec("rounds", self.work, hints=("go",), **options)  # type: ignore[arg-type]  # any option of a spec
        self.task = PeriodicTask(spec, clock=self.clock, hints=self.hints, failed=self.failures.append)

    async def work(self) -> bool:
        self.at_ms.append(self.clock.monotonic_ms())
        await self.clock.sleep(self.takes_s)
        return self.outcome()


@pytest.fixture
async def rounds() -> AsyncIterator[Callable[..., Rounds]]:
    running: list[tuple[Rounds, asyncio.Task[None]]] = []

    def make(**options: object) -> Rounds:
        made = Rounds(**options)
        running.append((made, asyncio.ensure_future(made.task.run())))
        return made

    yield make
    for made, task in running:
        made.task.stop()
        await made.clock.advance(0)
        await task


async def test_the_first_hint_after_idleness_is_served_at_once(rounds: Callable[..., Rounds]) -> None:
    made = rounds(min_interval_s=0.02)
    await made.clock.advance(1)
    await made.hints.set("go")
    await made.clock.advance(0)
    assert made.at_ms == [0, 1000]


async def test_hints_that_come_close_together_are_served_together(rounds: Callable[..., Rounds]) -> None:
    made = rounds(min_interval_s=0.02)
    await made.clock.advance(1)
    for _ in range(4):
        await made.hints.set("go")
        await made.clock.advance(0.005)
    await made.clock.advance(0.1)
    assert made.at_ms == [0, 1000, 1020]


async def test_runs_under_load_are_followed_by_pauses_in_which_hints_are_collected(
    rounds: Callable[..., Rounds],
) -> None:
    made = rounds(min_interval_s=0.02)
    made.takes_s = 0.1
    await made.clock.advance(1)
    for _ in range(40):
        await made.hints.set("go")
        await made.clock.advance(0.02)
    await made.clock.advance(1)
    assert BURST_S == 0.25
    # Each run takes 100 ms. The burst is spent with the third; from then on there are pauses of 100 ms.
    assert made.at_ms == [0, 1000, 1100, 1200, 1400, 1600, 1800]


async def test_short_runs_after_idleness_are_not_followed_by_pauses(rounds: Callable[..., Rounds]) -> None:
    made = rounds(min_interval_s=0.02)
    made.takes_s = 0.06
    for second in range(1, 4):
        await made.clock.advance(second - made.clock.monotonic_ms() / 1000)
        for _ in range(3):
            await made.hints.set("go")
            await made.clock.advance(0.06)
    assert made.at_ms == [0, 1000, 1060, 1120, 2000, 2060, 2120, 3000, 3060, 3120]


async def test_the_pause_after_a_very_long_run_is_bounded(rounds: Callable[..., Rounds]) -> None:
    made = rounds(min_interval_s=0.02)
    made.takes_s = 2.0
    await made.hints.set("go")
    await made.clock.advance(1)
    await made.hints.set("go")
    await made.clock.advance(4)
    assert made.at_ms == [0, 2000 + round(PAUSE_MAX_S * 1000)]


async def test_a_run_that_left_known_work_is_followed_by_the_next_without_a_pause(
    rounds: Callable[..., Rounds],
) -> None:
    begun: list[int] = []
    made = rounds(min_interval_s=0.02, is_unfinished=lambda: len(begun) <= 4)
    made.at_ms = begun
    made.takes_s, made.outcome = 0.2, lambda: True
    await made.clock.advance(1.5)
    # The burst is spent with the second run, and four leave something: pauses of 100 ms begin after the fifth.
    assert made.at_ms == [0, 200, 400, 600, 800, 1100, 1400]
    made.outcome = lambda: False
    await made.clock.advance(1)


async def test_a_hint_set_during_a_run_causes_the_next_run(rounds: Callable[..., Rounds]) -> None:
    made = rounds(min_interval_s=0.02)

    async def hinting() -> bool:
        made.at_ms.append(made.clock.monotonic_ms())
        if len(made.at_ms) == 1:
            await made.hints.set("go")
        return False

    object.__setattr__(made.task.spec, "work", hinting)
    await made.clock.advance(0.5)
    assert made.at_ms == [0, 20]


async def test_the_long_cycle_works_without_any_hint(rounds: Callable[..., Rounds]) -> None:
    made = rounds(long_cycle_s=10.0)
    await made.clock.advance(25)
    assert made.at_ms == [0, 10_000, 20_000]


async def test_a_task_with_more_to_do_goes_on_without_a_hint(rounds: Callable[..., Rounds]) -> None:
    made = rounds(min_interval_s=0.02)
    made.outcome = lambda: len(made.at_ms) < 3
    await made.clock.advance(1)
    assert made.at_ms == [0, 20, 40]


async def test_work_runs_at_its_due_time(rounds: Callable[..., Rounds]) -> None:
    made = rounds(long_cycle_s=10.0, due=lambda: 3.0)
    await made.clock.advance(7)
    assert made.at_ms == [0, 3_000, 6_000]


@pytest.mark.slow
async def test_a_run_that_raises_is_reported_and_the_next_ones_back_off(
    rounds: Callable[..., Rounds],
) -> None:
    made = rounds(min_interval_s=0.02, long_cycle_s=10.0)

    def fail() -> bool:
        raise RuntimeError("no store")

    made.outcome = fail
    for _ in range(100):
        await made.hints.set("go")
        await made.clock.advance(0.01)
    assert [failure.in_a_row for failure in made.failures] == list(range(1, len(made.failures) + 1))
    assert len(made.failures) < 8
    made.outcome = lambda: False
    await made.clock.advance(20)
    made.outcome = fail
    await made.hints.set("go")
    await made.clock.advance(1)
    assert made.failures[-1].in_a_row == 1


async def test_a_stopped_task_finishes_its_run_and_ends() -> None:
    made = Rounds()
    running = asyncio.ensure_future(made.task.run())
    await made.clock.advance(0)
    made.task.stop()
    await made.clock.advance(0)
    assert running.done()
    assert made.at_ms == [0]


async def test_a_due_that_raises_does_not_end_the_task(rounds: Callable[..., Rounds]) -> None:
    def broken() -> float:
        raise LookupError("no such time")

    made = rounds(long_cycle_s=10.0, due=broken)
    await made.clock.advance(25)
    assert made.at_ms == [0, 10_000, 20_000]
    assert [(failure.task, str(failure.error)) for failure in made.failures[:1]] == [("rounds", "no such time")]
    assert [failure.in_a_row for failure in made.failures] == [1, 2, 3]


async def test_the_task_works_while_hints_are_unavailable(
    rounds: Callable[..., Rounds], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rounds(min_interval_s=0.02, long_cycle_s=10.0)

    async def away(*_args: object, **_options: object) -> bool:
        raise ConnectionError("no hints")

    monkeypatch.setattr(made.hints, "take", away)
    monkeypatch.setattr(made.hints, "wait", away)
    await made.clock.advance(60)
    assert 5 <= len(made.at_ms) < 20
    assert made.at_ms[-1] >= 50_000
    assert {str(failure.error) for failure in made.failures} == {"no hints"}


async def test_a_failing_failure_callback_does_not_end_the_task(rounds: Callable[..., Rounds]) -> None:
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["message"]))
    made = rounds(long_cycle_s=10.0)

    def deaf(_failure: TaskFailure) -> None:
        raise RuntimeError("deaf")

    def fail() -> bool:
        raise RuntimeError("no store")

    made.task._failed, made.outcome = deaf, fail
    await made.clock.advance(15)
    assert made.at_ms == [0, 10_000]
    assert "no store" in said[0]
