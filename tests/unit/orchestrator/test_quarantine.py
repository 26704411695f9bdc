"""What fails rests, and is given up in the end."""

from sokovan.domain.errors import Conflict
from sokovan.domain.lifecycle.retry import RetryDelay
from sokovan.orchestrator.quarantine import FailedItem, Quarantine, QuarantineLimits
from sokovan.testing.clock import VirtualClock


async def test_an_object_that_failed_rests_longer_each_time() -> None:
    clock = VirtualClock()
    quarantine = Quarantine(clock, limits=QuarantineLimits(3, RetryDelay(first_ms=1_000)))
    assert quarantine.admits("s")
    assert quarantine.next_due_s() is None
    quarantine.failed("s", handler="start", error=ValueError("bad"))
    assert not quarantine.admits("s")
    assert quarantine.admits("other")
    assert quarantine.next_due_s() == 1.0
    await clock.advance(1)
    assert quarantine.admits("s")
    quarantine.failed("s", handler="start", error=ValueError("bad"))
    await clock.advance(1)
    assert not quarantine.admits("s")


async def test_too_many_failures_are_hopeless() -> None:
    quarantine = Quarantine(VirtualClock(), limits=QuarantineLimits(2))
    quarantine.failed("s", handler="start", error=ValueError("bad"))
    quarantine.failed("s", handler="watch", error=Conflict("in the way"))
    assert quarantine.take() == [
        FailedItem("s", "start", "internal", "ValueError: bad", exhausted=False),
        FailedItem("s", "watch", "conflict", "in the way", exhausted=True),
    ]
    assert quarantine.take() == []


async def test_a_recovered_object_starts_without_failures() -> None:
    quarantine = Quarantine(VirtualClock(), limits=QuarantineLimits(2))
    quarantine.failed("s", handler="start", error=ValueError("bad"))
    quarantine.recovered("s")
    assert quarantine.admits("s")
    quarantine.failed("s", handler="start", error=ValueError("bad"))
    assert not any(failed.exhausted for failed in quarantine.take())
    quarantine.clear()
    assert quarantine.admits("s")
