"""An agent looks often when something changes, and seldom when nothing does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.messages import Observed, RuntimeClaim
from sokovan.agent.watcher import Watcher, WatchOptions
from sokovan.ports.runtime import KernelRuntime, KernelState, Observation
from sokovan.testing.clock import VirtualClock
from tests.unit.agent.supervisor_harness import key, seen


class ObservedRuntime:
    """The one method of a runtime that a watcher calls."""

    def __init__(self) -> None:
        self.observations = 0
        self.failure: Exception | None = None
        self.state = KernelState.RUNNING
        self.takes_s = 0.0
        self.clock = VirtualClock()

    async def observe(self) -> Sequence[Observation]:
        self.observations += 1
        if self.failure is not None:
            raise self.failure
        if self.takes_s:
            await self.clock.sleep(self.takes_s)
        return [seen(state=self.state)]


class Rig:
    def __init__(self, options: WatchOptions) -> None:
        self.clock, self.runtime = VirtualClock(), ObservedRuntime()
        self.submitted: list[Observed] = []
        self.logged: list[str] = []
        self.tick = 3
        self.watcher = Watcher(
            cast("KernelRuntime", self.runtime),
            self.clock,
            options,
            tick=lambda: self.tick,
            submit=self.submitted.append,
            log=self.logged.append,
        )
        self.task = asyncio.ensure_future(self.watcher.run())

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig(WatchOptions(period_s=1.0))
    yield made
    await made.end()


async def test_a_quiet_machine_is_looked_at_once_a_period(rig: Rig) -> None:
    await rig.clock.advance(10)

    assert 10 <= rig.runtime.observations <= 11


async def test_an_idle_machine_is_looked_at_less_often() -> None:
    rig = Rig(WatchOptions(period_s=0.1, idle_s=2.0))
    rig.runtime.state = KernelState.EXITED
    await rig.clock.advance(20)

    assert rig.runtime.observations <= 25
    await rig.end()


async def test_a_look_that_takes_long_is_followed_by_a_long_rest() -> None:
    rig = Rig(WatchOptions(period_s=0.1))
    rig.runtime.takes_s, rig.runtime.clock = 0.5, rig.clock
    await rig.clock.advance(60)
    before = rig.runtime.observations
    await rig.clock.advance(105)

    assert rig.runtime.observations - before <= 11
    await rig.end()


async def test_after_something_was_started_it_is_looked_at_at_once_and_often_for_a_while(rig: Rig) -> None:
    await rig.clock.advance(5)
    before = rig.runtime.observations
    rig.watcher.observe_soon()
    await rig.clock.advance(0)
    assert rig.runtime.observations == before + 1
    await rig.clock.advance(0.2)
    assert rig.runtime.observations >= before + 5
    await rig.clock.advance(10)

    settled = rig.runtime.observations
    await rig.clock.advance(10)
    assert rig.runtime.observations <= settled + 11


async def test_an_observation_says_when_it_began(rig: Rig) -> None:
    await rig.clock.advance(0)

    assert (rig.submitted[0].begun, len(rig.submitted[0].observations)) == (3, 1)


async def test_a_failed_observation_is_retried(rig: Rig) -> None:
    rig.runtime.failure = OSError("no")
    await rig.clock.advance(0)
    rig.submitted.clear()
    await rig.clock.advance(1)
    assert not rig.submitted
    assert "cannot observe" in rig.logged[0]
    rig.runtime.failure = None
    await rig.clock.advance(2)

    assert rig.submitted


async def test_a_change_signal_causes_an_observation() -> None:
    ends = asyncio.Event()

    async def changes() -> None:
        await ends.wait()
        ends.clear()

    rig = Rig(WatchOptions(period_s=60.0, changes=changes))
    await rig.clock.advance(1)
    before = rig.runtime.observations
    ends.set()
    await rig.clock.advance(0)

    assert rig.runtime.observations == before + 1
    await rig.end()


async def test_a_runtime_whose_change_signals_fail_is_still_polled() -> None:
    async def changes() -> None:
        raise OSError("too many open files")

    rig = Rig(WatchOptions(period_s=1.0, changes=changes))
    await rig.clock.advance(3)

    assert rig.runtime.observations >= 3
    assert "no change signals" in rig.logged[0]
    await rig.end()


async def test_claims_come_with_the_observation() -> None:
    async def claims(observations: Sequence[Observation]) -> dict[KernelKey, RuntimeClaim]:
        return {key(observation.kernel_id): RuntimeClaim({"cpu": 1}) for observation in observations}

    rig = Rig(WatchOptions(claims=claims))
    await rig.clock.advance(0)

    assert rig.submitted[0].claims == {key(): RuntimeClaim({"cpu": 1})}
    await rig.end()


async def test_a_runtime_with_change_signals_is_polled_seldom() -> None:
    rig = Rig(WatchOptions(period_s=0.05, idle_s=2.0, changes=asyncio.Event().wait))
    await rig.clock.advance(20)
    before = rig.runtime.observations
    rig.watcher.observe_soon()
    await rig.clock.advance(0)
    assert rig.runtime.observations == before + 1
    await rig.clock.advance(20)

    assert rig.runtime.observations <= before + 12
    await rig.end()


@pytest.mark.slow
async def test_news_without_end_leave_the_machine_time_for_its_work() -> None:
    rig = Rig(WatchOptions())
    rig.runtime.takes_s, rig.runtime.clock = 0.1, rig.clock
    for _ in range(300):
        rig.watcher.observe_soon()
        await rig.clock.advance(0.01)

    assert 8 <= rig.runtime.observations <= 11
    await rig.end()


class Ends:
    """Signals ends, and observes what has ended."""

    def __init__(self) -> None:
        self.signalled = asyncio.Event()
        self.gone: list[Observation] = []
        self.looks = 0
        self.failure: Exception | None = None

    async def changes(self) -> None:
        await self.signalled.wait()
        self.signalled.clear()

    async def ended(self) -> Sequence[Observation]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        gone, self.gone = self.gone, []
        return gone

    def end(self, name: str) -> None:
        self.gone.append(seen(name, state=KernelState.EXITED))
        self.signalled.set()

    def options(self) -> WatchOptions:
        return WatchOptions(period_s=60.0, idle_s=60.0, changes=self.changes, ended=self.ended)


async def test_a_signalled_end_is_observed_by_itself() -> None:
    ends = Ends()
    rig = Rig(ends.options())
    await rig.clock.advance(1)
    rig.submitted.clear()
    ends.end("k7")
    await rig.clock.advance(0)

    assert rig.runtime.observations == 1
    assert [(one.complete, [seen.kernel_id for seen in one.observations]) for one in rig.submitted] == [(False, ["k7"])]
    await rig.end()


async def test_ends_without_end_do_not_keep_a_runtime_from_being_listed() -> None:
    ends = Ends()
    rig = Rig(ends.options())
    for number in range(130):
        ends.end(f"k{number}")
        await rig.clock.advance(1)

    assert ends.looks >= 100
    assert rig.runtime.observations == 3
    await rig.end()


async def test_a_started_kernel_needs_no_listing_if_its_end_is_signalled() -> None:
    ends = Ends()
    rig = Rig(ends.options())
    await rig.clock.advance(1)
    rig.watcher.started()
    await rig.clock.advance(1)
    assert (rig.runtime.observations, ends.looks) == (1, 0)
    await rig.end()

    polled = Rig(WatchOptions(period_s=60.0))
    await polled.clock.advance(1)
    polled.watcher.started()
    await polled.clock.advance(0)
    assert polled.runtime.observations == 2
    await polled.end()


async def test_ends_that_cannot_be_observed_are_found_in_the_listing_that_follows() -> None:
    ends = Ends()
    rig = Rig(ends.options())
    await rig.clock.advance(1)
    ends.failure = OSError("no")
    ends.end("k7")
    await rig.clock.advance(0)

    assert rig.runtime.observations == 2
    assert "ended kernels" in rig.logged[0]
    await rig.end()
