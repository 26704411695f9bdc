"""Devices by the driver's program, as a real process on PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.agent.devices.found_devices import DRIVER_LABEL, MEMORY_LABEL, MODEL_LABEL, NO_DEVICES
from sokovan.agent.devices.nvidia_smi import DEVICES_MAX, PROGRAM, program_devices, read_devices
from sokovan.domain.records import Device

ROW = "GPU-{number}, NVIDIA H200, 143771, 580.159.03\n"


def program(folder: Path, *lines: str) -> str:
    """A PATH with a program of this name that runs these lines of shell."""
    file = folder / PROGRAM
    file.write_text("\n".join(("#!/bin/sh", *lines, "")))
    file.chmod(0o755)
    return str(folder)


def test_the_program_is_asked_for_devices_and_named_as_their_source(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        'echo "$@" > "$0.asked"',
        "echo 'GPU-b, NVIDIA H200, 143771, 580.159.03'",
        "echo 'GPU-a, NVIDIA H200, 143771, 580.159.03'",
    )
    found = program_devices(path)

    assert found.devices == (Device("GPU-b", "cuda.device"), Device("GPU-a", "cuda.device"))
    assert found.labels == {MODEL_LABEL: "NVIDIA H200", MEMORY_LABEL: str(143771 << 20), DRIVER_LABEL: "580.159.03"}
    assert found.source == PROGRAM
    asked = (tmp_path / f"{PROGRAM}.asked").read_text()
    fields = "uuid,name,memory.total,driver_version,mig.mode.current"
    assert asked == f"--query-gpu={fields} --format=csv,noheader,nounits\n"


def test_a_device_in_mig_mode_is_no_whole_device() -> None:
    found = read_devices(
        "GPU-a, NVIDIA H200, 1, 580, Disabled\nGPU-b, NVIDIA H200, 1, 580, Enabled\nGPU-c, T4, 1, 580, [N/A]\n"
    )
    assert [one.device_id for one in found.devices] == ["GPU-a", "GPU-c"]
    assert (found.gpus, found.partitioned) == (("GPU-a", "GPU-b", "GPU-c"), frozenset({"GPU-b"}))


def test_a_driver_that_does_not_know_the_mode_is_asked_without_it(tmp_path: Path) -> None:
    refuses = 'case "$1" in *mig*) echo \'Field "mig.mode.current" is not a valid field to query.\'; exit 2;; esac'
    found = program_devices(program(tmp_path, refuses, "echo 'GPU-a, Tesla V100, 1, 418'"))
    assert found.devices == (Device("GPU-a", "cuda.device"),)
    always = program(tmp_path, "echo 'Field \"uuid\" is not a valid field to query.'", "exit 2")
    assert program_devices(always) == NO_DEVICES


def test_a_machine_without_the_program_has_no_devices(tmp_path: Path) -> None:
    assert program_devices(str(tmp_path)) == NO_DEVICES


@pytest.mark.parametrize(
    "lines",
    [
        ("echo 'GPU-a, NVIDIA H200, 1, 2'", "exit 9"),
        ("echo 'No devices were found'",),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'", "exit 18"),
    ],
)
def test_a_program_that_fails_names_no_devices(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert program_devices(program(tmp_path, *lines)) == NO_DEVICES


def test_a_file_that_cannot_be_executed_names_no_devices(tmp_path: Path) -> None:
    path = program(tmp_path)
    (tmp_path / PROGRAM).write_bytes(b"\x7fELF, but no program")
    assert program_devices(path) == NO_DEVICES


@pytest.mark.parametrize("lines", [("exec sleep 600",), ("exec yes 'GPU-a, NVIDIA H200, 1, 2'",)])
def test_a_program_that_hangs_or_does_not_stop_writing_is_killed(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert program_devices(program(tmp_path, *lines), limit_s=0.1) == NO_DEVICES


def test_lines_of_other_forms_and_repeated_devices_are_left_out() -> None:
    text = (
        "Warning: something\nGPU-a, NVIDIA H200, [N/A], 580\nGPU-a, NVIDIA H200, 1, 580\nMIG-b, x, 1, 580\n"
        'GPU-"c, x, 1, 580\nGPU-c d, x, 1, 580\nGPU-e, x, 1\n'
    )
    found = read_devices(text)
    assert found.devices == (Device("GPU-a", "cuda.device"),)
    assert MEMORY_LABEL not in found.labels


def test_no_more_devices_than_a_limit_are_read() -> None:
    text = "".join(ROW.format(number=number) for number in range(DEVICES_MAX + 1))
    assert len(read_devices(text).devices) == DEVICES_MAX
