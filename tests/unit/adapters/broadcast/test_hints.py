"""Hints between processes, beyond the contract: own ones stay, and a gap counts as a hint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sokovan.adapters.broadcast.hints import BroadcastHints
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.events import BusUnavailable
from sokovan.testing.clock import until


async def soon(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""

    async def checked() -> bool:
        return holds()

    await until(checked, elapse=SystemClock().sleep)


class RecordingLink:
    """A connection that only records, or is lost."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.lost = False

    def listen(self, _channel: str, received: Callable[[str], None], opened: Callable[[], None]) -> None:
        self.received, self.opened = received, opened

    async def notify(self, _channel: str, payloads: Sequence[str]) -> None:
        if self.lost:
            raise BusUnavailable("lost")
        self.sent += payloads

    async def run(self) -> None:
        """It is always open."""


@pytest.fixture
def link() -> RecordingLink:
    return RecordingLink()


@pytest.fixture
def hints(link: RecordingLink) -> BroadcastHints:
    return BroadcastHints(InProcessHints(SystemClock()), link, own=("events",))


async def test_hints_of_one_moment_are_sent_once_and_own_ones_never(hints: BroadcastHints, link: RecordingLink) -> None:
    for name in ("sessions", "events", "sessions", "routes"):
        await hints.set(name)
    await soon(lambda: len(link.sent) == 2)
    assert link.sent == ["routes", "sessions"]
    assert await hints.take("events")


async def test_a_hint_that_cannot_be_sent_still_counts_here(hints: BroadcastHints, link: RecordingLink) -> None:
    link.lost = True
    await hints.set("sessions")
    assert await hints.take("sessions")
    await hints.close()


async def test_after_a_gap_everything_that_is_waited_for_counts_as_set(
    hints: BroadcastHints, link: RecordingLink
) -> None:
    assert not await hints.wait(["sessions", "events"], timeout_s=0)
    link.opened()
    assert await hints.wait(["sessions"], timeout_s=5)
    assert not await hints.take("events")


async def test_others_cannot_set_an_own_hint(hints: BroadcastHints, link: RecordingLink) -> None:
    link.received("events")
    link.received("sessions")
    assert await hints.wait(["sessions"], timeout_s=5)
    assert not await hints.take("events")
