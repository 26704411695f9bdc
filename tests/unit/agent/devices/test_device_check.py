"""The check of devices: faults that come and go are reported and logged."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.agent.devices.device_check import DeviceCheck
from sokovan.agent.devices.device_faults import DeviceReading
from sokovan.agent.devices.found_devices import fake_devices
from sokovan.domain.records import Device
from sokovan.ports.agent_states import DeviceFigures
from sokovan.testing.clock import VirtualClock

REAL = Device("GPU-a", "cuda.device")


async def test_faults_that_come_and_go_are_reported_and_logged_once() -> None:
    busy = DeviceFigures(use_percent=90)
    texts = ("", "hot", "hot", "", "")
    readings = [DeviceReading({"GPU-a": text}, figures={"GPU-a": busy, "GPU-other": busy}) for text in texts]
    readings[1] = DeviceReading({"GPU-a": "hot"})
    measured: list[Mapping[str, DeviceFigures]] = []
    reported: list[Mapping[str, str]] = []
    logged: list[str] = []
    check = DeviceCheck(
        (REAL, *fake_devices(1)),
        VirtualClock(),
        report=reported.append,
        measured=measured.append,
        log=logged.append,
        read=lambda: readings.pop(0),
    )
    for _ in range(5):
        await check.check()
    assert reported == [{}, {"GPU-a": "hot"}, {"GPU-a": "hot"}, {"GPU-a": "hot"}, {}]
    assert measured == [{"GPU-a": busy}, {}, *[{"GPU-a": busy}] * 3], "only its own, and only what was read now"
    assert logged == ["device GPU-a has a fault, and gets no kernels: hot", "device GPU-a is healthy again"]


async def test_nothing_is_checked_without_devices_of_a_driver_or_an_interval() -> None:
    def read() -> DeviceReading:
        raise AssertionError

    for devices, every_s in ((fake_devices(2), 1.0), ((REAL,), 0.0)):
        check = DeviceCheck(
            devices,
            VirtualClock(),
            report=lambda _faults: None,
            measured=lambda _figures: None,
            log=lambda _line: None,
            read=read,
        )
        await check.run(every_s)
