"""Clock, waiting and jitter."""

from __future__ import annotations

from sokovan.sdk.environment import SystemEnvironment


async def test_time_goes_on_and_chance_stays_in_its_bounds() -> None:
    around = SystemEnvironment()
    before = around.now_s()
    around.sleep(0.001)
    await around.async_sleep(0.001)
    assert around.now_s() >= before + 0.002
    assert 0 <= around.jitter() <= 1
    assert around.wall_s() > 1_700_000_000


def test_no_two_keys_are_the_same() -> None:
    around = SystemEnvironment()
    assert len({around.new_key() for _ in range(100)}) == 100
