"""Device assignment."""

from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.sql.allocation.devices import DeviceAllocator
from sokovan.domain.slots import ResourceSlot

GPU, SHARES = "cuda.device", "cuda.shares"


def device_allocator(slot: str, *amounts: tuple[int, int]) -> DeviceAllocator:
    """Devices d0, d1, ... as (units, free)."""
    devices = DeviceAllocator()
    for index, (units, free) in enumerate(amounts):
        devices.add(slot, f"d{index}", units=units, free=free)
    return devices


def test_whole_devices_are_taken_by_number() -> None:
    devices = device_allocator(GPU, (1, 1), (1, 0), (1, 1), (1, 1))
    assert devices.take(ResourceSlot({GPU: 2})) == {GPU: (("d0", 1), ("d2", 1))}
    assert devices.take(ResourceSlot({GPU: 1})) == {GPU: (("d3", 1),)}
    assert devices.take(ResourceSlot({GPU: 1})) is None


def test_a_share_goes_to_the_fullest_device_that_holds_it_whole() -> None:
    devices = device_allocator(SHARES, (10, 10), (10, 3), (10, 5))
    assert devices.take(ResourceSlot({SHARES: 4})) == {SHARES: (("d2", 4),)}
    assert devices.take(ResourceSlot({SHARES: 3})) == {SHARES: (("d1", 3),)}


def test_what_no_device_holds_is_spread_over_the_emptiest() -> None:
    devices = device_allocator(SHARES, (10, 2), (10, 6), (10, 5))
    assert devices.take(ResourceSlot({SHARES: 12})) == {SHARES: (("d1", 6), ("d2", 5), ("d0", 1))}


PAIRS = {"sokovan.gpu-group.nvlink0": "d0,d2", "sokovan.gpu-group.nvlink1": "d1,d3", "sokovan.gpu-group.numa0": "d0,d1"}


def test_several_devices_are_taken_from_the_closest_group_with_room() -> None:
    devices = device_allocator(GPU, *[(1, 1)] * 4)
    devices.labels = PAIRS
    assert devices.take(ResourceSlot({GPU: 2})) == {GPU: (("d0", 1), ("d2", 1))}
    assert devices.take(ResourceSlot({GPU: 2})) == {GPU: (("d1", 1), ("d3", 1))}
    # Without a group that has room, as without groups.
    busy = device_allocator(GPU, (1, 0), (1, 1), (1, 1), (1, 0))
    busy.labels = PAIRS
    assert busy.take(ResourceSlot({GPU: 2})) == {GPU: (("d1", 1), ("d2", 1))}


def test_of_equal_groups_the_fullest_that_has_room_is_taken_and_one_device_breaks_no_rule() -> None:
    devices = device_allocator(SHARES, (10, 10), (10, 10), (10, 10), (10, 4))
    devices.labels = PAIRS
    assert devices.take(ResourceSlot({SHARES: 14})) == {SHARES: (("d1", 10), ("d3", 4))}
    assert devices.take(ResourceSlot({SHARES: 3})) == {SHARES: (("d0", 3),)}


def test_a_slot_without_devices_is_only_counted() -> None:
    devices = device_allocator(GPU, (1, 1))
    assert devices.take(ResourceSlot({"cpu": 8000})) == {}


def test_devices_that_are_all_gone_are_too_few_and_not_a_mere_number() -> None:
    assert device_allocator(GPU, (1, 0)).take(ResourceSlot({GPU: 1})) is None


def test_one_slot_without_room_takes_nothing_of_the_others() -> None:
    devices = device_allocator(GPU, (1, 1))
    devices.add("tpu.device", "t0", units=1, free=0)
    assert devices.take(ResourceSlot({GPU: 1, "tpu.device": 1})) is None
    assert devices.free[GPU] == {"d0": 1}


def test_only_a_device_of_one_unit_is_exclusive() -> None:
    devices = device_allocator(SHARES, (1, 1), (10, 1))
    assert devices.exclusive(SHARES, "d0")
    assert not devices.exclusive(SHARES, "d1")


devices = st.lists(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=6)


@given(devices, st.integers(1, 30))
def test_taking_gives_exactly_what_was_asked_for_and_putting_back_restores(
    given_devices: list[tuple[int, int]], amount: int
) -> None:
    devices = device_allocator(SHARES, *given_devices)
    before = {slot: dict(free) for slot, free in devices.free.items()}
    picked = devices.take(ResourceSlot({SHARES: amount}))
    if not given_devices:
        assert picked == {}
    elif picked is None:
        assert sum(free for _, free in given_devices) < amount
    else:
        assert sum(units for _, units in picked[SHARES]) == amount
        assert len({device for device, _ in picked[SHARES]}) == len(picked[SHARES])
        assert all(free >= 0 for free in devices.free[SHARES].values())
        devices.put_back(picked)
    assert devices.free == before
