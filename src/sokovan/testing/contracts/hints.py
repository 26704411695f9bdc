"""Contract of `ports.hints.Hints`."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from sokovan.ports.hints import Hints
from sokovan.testing.clock import outcome
from sokovan.testing.contracts import Subject, expect

HintsSubject: TypeAlias = Subject[Hints]
LONG_S = 30.0
SHORT_S = 0.2


async def a_hint_is_taken_once(subject: HintsSubject) -> None:
    """Taking clears the hint."""
    hints = await subject.make()
    expect(not await hints.take("schedule"), "a hint was there before it was set")
    await hints.set("schedule")
    expect(await hints.take("schedule"), "a hint that was set is missing")
    expect(not await hints.take("schedule"), "a hint that was taken is still there")


async def a_hint_set_twice_is_taken_once(subject: HintsSubject) -> None:
    """Hints coalesce."""
    hints = await subject.make()
    await hints.set("schedule")
    await hints.set("schedule")
    expect(await hints.take("schedule"), "a hint that was set twice is missing")
    expect(not await hints.take("schedule"), "a hint that was set twice is there twice")


async def a_hint_set_during_a_scan_remains_after_it(subject: HintsSubject) -> None:
    """Taking the hint before the scan loses no wake-up."""
    scanner, other = await subject.make(), await subject.make()
    await other.set("schedule")
    await scanner.take("schedule")
    await other.set("schedule")
    woken = await outcome(scanner.wait(["schedule"], timeout_s=LONG_S), elapse=subject.elapse)
    expect(woken, "a hint set during the scan does not trigger the next one")
    expect(await scanner.take("schedule"), "a hint that was set during the scan is gone")


async def a_set_hint_ends_the_wait_at_once(subject: HintsSubject) -> None:
    """A hint set before `wait` counts."""
    hints = await subject.make()
    await hints.set("schedule")
    expect(await outcome(hints.wait(["schedule"], timeout_s=0), elapse=subject.elapse), "a hint was overlooked")


async def a_hint_wakes_a_waiter(subject: HintsSubject) -> None:
    """A hint of another client wakes long before the timeout."""
    waiter, other = await subject.make(), await subject.make()
    waiting = asyncio.ensure_future(waiter.wait(["schedule"], timeout_s=1000 * LONG_S))
    await subject.elapse(SHORT_S)
    expect(not waiting.done(), "the wait ended without a hint")
    await other.set("schedule")
    expect(await outcome(waiting, elapse=subject.elapse), "a hint did not wake who waited for it")


async def a_hint_wakes_all_waiters(subject: HintsSubject) -> None:
    """All waiters wake; one takes the hint."""
    waiters = [await subject.make(), await subject.make()]
    waiting = asyncio.gather(*(waiter.wait(["schedule"], timeout_s=LONG_S) for waiter in waiters))
    await subject.elapse(SHORT_S)
    await waiters[0].set("schedule")
    expect(await outcome(waiting, elapse=subject.elapse) == [True, True], "a hint woke only some of those who waited")


async def any_of_several_hints_ends_the_wait(subject: HintsSubject) -> None:
    """One of the names is enough."""
    hints = await subject.make()
    waiting = asyncio.ensure_future(hints.wait(["start", "schedule", "check"], timeout_s=LONG_S))
    await subject.elapse(0)
    await hints.set("check")
    expect(await outcome(waiting, elapse=subject.elapse), "the last of three hints did not wake")


async def waiting_leaves_the_hint_in_place(subject: HintsSubject) -> None:
    """Only `take` clears it."""
    hints = await subject.make()
    await hints.set("schedule")
    await outcome(hints.wait(["schedule"], timeout_s=LONG_S), elapse=subject.elapse)
    expect(await hints.take("schedule"), "waiting took the hint")


async def a_wait_without_a_hint_times_out(subject: HintsSubject) -> None:
    """It returns False in time."""
    hints = await subject.make()
    woken = await outcome(hints.wait(["schedule"], timeout_s=SHORT_S), elapse=subject.elapse)
    expect(not woken, "the wait reports a hint that was not set")


async def a_wait_for_no_names_times_out(subject: HintsSubject) -> None:
    """Nothing can wake it."""
    hints = await subject.make()
    await hints.set("schedule")
    expect(not await outcome(hints.wait([], timeout_s=SHORT_S), elapse=subject.elapse), "nothing was waited for")


async def another_hint_does_not_end_the_wait(subject: HintsSubject) -> None:
    """Names are independent."""
    hints = await subject.make()
    waiting = asyncio.ensure_future(hints.wait(["schedule"], timeout_s=SHORT_S))
    await subject.elapse(0)
    await hints.set("check")
    expect(not await outcome(waiting, elapse=subject.elapse), "another hint ended the wait")
    expect(await hints.take("check"), "another hint was lost by it")


async def a_cancelled_wait_does_not_affect_others(subject: HintsSubject) -> None:
    """Other waits and the hints remain."""
    hints = await subject.make()
    given_up = asyncio.ensure_future(hints.wait(["schedule"], timeout_s=LONG_S))
    staying = asyncio.ensure_future(hints.wait(["schedule"], timeout_s=LONG_S))
    await subject.elapse(SHORT_S)
    given_up.cancel()
    await subject.elapse(0)
    await hints.set("schedule")
    expect(await outcome(staying, elapse=subject.elapse), "the wait next to a cancelled one was not woken")
    expect(await hints.take("schedule"), "the hint is gone")


CHECKS = (
    a_hint_is_taken_once,
    a_hint_set_twice_is_taken_once,
    a_hint_set_during_a_scan_remains_after_it,
    a_set_hint_ends_the_wait_at_once,
    a_hint_wakes_a_waiter,
    a_hint_wakes_all_waiters,
    any_of_several_hints_ends_the_wait,
    waiting_leaves_the_hint_in_place,
    a_wait_without_a_hint_times_out,
    a_wait_for_no_names_times_out,
    another_hint_does_not_end_the_wait,
    a_cancelled_wait_does_not_affect_others,
)
