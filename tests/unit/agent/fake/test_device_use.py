"""Simulated figures of devices."""

from __future__ import annotations

from sokovan.agent.fake.device_use import MEMORY_BYTES, STEADY_MS, simulated_figures
from sokovan.agent.fake.shape import FleetShape
from sokovan.ports.agent_states import DeviceFigures

DEVICES = FleetShape(count=1, gpus=3).devices()
IDLE = DeviceFigures(0, 0, MEMORY_BYTES, 32)


def test_idle_devices_do_nothing_and_share_their_figures() -> None:
    found = simulated_figures(DEVICES, (), now_ms=0)
    assert found == dict.fromkeys(("gpu0", "gpu1", "gpu2"), IDLE)
    assert simulated_figures(FleetShape(count=2, gpus=3).devices(), (), now_ms=9) is found


def test_a_working_device_is_busy_by_kernel_and_time_and_others_stay_idle() -> None:
    found = [simulated_figures(DEVICES, [("gpu1", "k1")], now_ms=at * STEADY_MS) for at in range(20)]
    assert {one["gpu0"] for one in found} == {one["gpu2"] for one in found} == {IDLE}
    uses = [one["gpu1"].use_percent or 0 for one in found]
    assert len(set(uses)) > 3
    assert 55 <= min(uses) <= max(uses) < 100
    [memory] = {one["gpu1"].memory_percent for one in found}
    assert memory is not None
    assert 29 <= memory < 95
    assert found[0] == simulated_figures(DEVICES, [("gpu1", "k1")], now_ms=STEADY_MS - 1)
    assert simulated_figures(DEVICES, (), now_ms=0)["gpu1"] == IDLE, "the shared figures are not changed"
