"""Faults of devices over several readings."""

from __future__ import annotations

from sokovan.agent.devices.device_faults import CLEAN_READINGS, FAILED_READINGS, LOST, DeviceFaults, DeviceReading
from sokovan.domain.cluster.agent_health import FAULT_LENGTH_MAX

HEALTHY = DeviceReading({"a": "", "b": ""})
FRESH = DeviceFaults(("a", "b"))


def after(*readings: DeviceReading, before: DeviceFaults = FRESH) -> DeviceFaults:
    for reading in readings:
        before = before.after(reading)
    return before


def test_a_fault_counts_at_once_and_a_device_that_is_not_listed_has_one() -> None:
    assert after(HEALTHY).faults == {}
    assert after(DeviceReading({"a": "3 errors", "b": "", "other": "x"})).faults == {"a": "3 errors"}
    assert after(DeviceReading({"b": ""})).faults == {"a": LOST}
    assert len(after(DeviceReading({"a": "x" * 999, "b": ""})).faults["a"]) == FAULT_LENGTH_MAX


def test_a_device_is_healthy_again_after_several_readings_in_a_row() -> None:
    faulty = after(DeviceReading({"a": "hot", "b": ""}))
    almost = after(*[HEALTHY] * (CLEAN_READINGS - 1), before=faulty)
    assert almost.faults == {"a": "hot"}
    assert after(HEALTHY, before=almost).faults == {}
    relapsed = after(DeviceReading({"a": "hot", "b": ""}), HEALTHY, before=almost)
    assert relapsed.faults == {"a": "hot"}


def test_readings_that_fail_in_a_row_are_a_fault_of_every_device() -> None:
    broken = DeviceReading(failure="no driver")
    almost = after(*[broken] * (FAILED_READINGS - 1))
    assert almost.faults == {}
    assert after(broken, before=almost).faults == {"a": "no driver", "b": "no driver"}
    assert after(HEALTHY, broken, before=almost).faults == {}
    known = after(DeviceReading({"a": "hot", "b": ""}), broken)
    assert known.faults == {"a": "hot"}
