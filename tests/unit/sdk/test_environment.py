"""Clock, sleep and randomness of the SDK."""

from __future__ import annotations

from sokovan.sdk.environment import SystemEnvironment


async def test_time_advances_and_jitter_is_between_0_and_1() -> None:
    environment = SystemEnvironment()
    before = environment.now_s()
    environment.sleep(0.001)
    await environment.async_sleep(0.001)
    assert environment.now_s() >= before + 0.002
    assert 0 <= environment.jitter() <= 1
    assert environment.wall_s() > 1_700_000_000


def test_no_two_keys_are_the_same() -> None:
    environment = SystemEnvironment()
    assert len({environment.new_key() for _ in range(100)}) == 100
