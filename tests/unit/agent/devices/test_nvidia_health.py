"""Faults of devices by the driver's program, as a real process on PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.agent.devices.device_faults import DeviceReading
from sokovan.agent.devices.nvidia_health import QUERIES, NvidiaHealth, read_health
from sokovan.agent.devices.nvidia_smi import PROGRAM, QueryOutput
from sokovan.ports.agent_states import DeviceFigures

# An idle device, as the last fields of a row.
IDLE = ", 0, 0, 81920, 30"
NOTHING = DeviceFigures(0, 0, 81920 << 20, 30)


def program(folder: Path, *lines: str) -> str:
    """A PATH with a program of this name that runs these lines of shell."""
    file = folder / PROGRAM
    file.write_text("\n".join(("#!/bin/sh", *lines, "")))
    file.chmod(0o755)
    return str(folder)


def reading(text: str, problem: str = "") -> DeviceReading:
    return read_health(QUERIES[0], QueryOutput(text, problem))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("0, No, Not Active, None", ""),
        ("[N/A], [N/A], [Not Supported], [N/A]", ""),
        ("2, No, Not Active, None", "2 uncorrected memory errors since the driver was loaded; reset the device"),
        ("0, Yes, Not Active, None", "a faulty row of its memory could not be replaced; replace the device"),
        ("0, No, Not Active, Reset", "the driver requests a recovery: Reset"),
        ("0, No, Active, None", "it is too hot, and slowed down by its hardware"),
        ("[GPU is lost], No, Active, None", "nvidia-smi reports [GPU is lost]"),
        ("0", ""),
    ],
)
def test_each_fault_is_named(row: str, fault: str) -> None:
    assert reading(f"GPU-a, {row}{IDLE}\n").listed == {"GPU-a": fault}


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        ("97, 70000, 81920, 64", DeviceFigures(97, 70000 << 20, 81920 << 20, 64)),
        ("[N/A], [N/A], [N/A], 41", DeviceFigures(temperature_c=41)),
        ("[Unknown Error], 1, 2, -3", DeviceFigures(None, 1 << 20, 2 << 20, None)),
    ],
)
def test_figures_are_read_where_they_are_numbers_and_are_no_faults(row: str, figures: DeviceFigures) -> None:
    found = reading(f"GPU-a, 0, No, Not Active, None, {row}\n")
    assert found == DeviceReading({"GPU-a": ""}, figures={"GPU-a": figures})


def test_devices_count_even_if_the_program_fails_for_others() -> None:
    text = f"GPU-a, 0, No, Not Active, None{IDLE}\nUnable to determine the device handle for GPU1: GPU is lost.\n"
    assert reading(text, "nvidia-smi failed with code 15") == DeviceReading({"GPU-a": ""}, figures={"GPU-a": NOTHING})


def test_a_program_that_names_no_device_has_failed() -> None:
    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    assert reading(f"{mismatch}\n", "nvidia-smi failed with code 18").failure == (
        f"nvidia-smi failed with code 18: {mismatch}"
    )
    assert reading("").failure == "nvidia-smi names no device"


def test_an_older_driver_is_asked_for_the_fields_that_it_knows_and_a_missing_program_is_a_failure(
    tmp_path: Path,
) -> None:
    assert NvidiaHealth(str(tmp_path)).read().failure == "nvidia-smi is missing"
    path = program(
        tmp_path,
        'echo asked >> "$0.asked"',
        'case "$1" in',
        "*recovery*) echo 'Field \"gpu_recovery_action\" is not a valid field to query.'; exit 2 ;;",
        "esac",
        f"echo 'GPU-a, 7, Not Active{IDLE}'",
    )
    health = NvidiaHealth(path)
    fault = "7 uncorrected memory errors since the driver was loaded; reset the device"
    for _ in range(2):
        assert health.read() == DeviceReading({"GPU-a": fault}, figures={"GPU-a": NOTHING})
    assert (tmp_path / f"{PROGRAM}.asked").read_text() == "asked\n" * 3
