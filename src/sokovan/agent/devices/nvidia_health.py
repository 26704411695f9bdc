"""Faults and use of NVIDIA devices, by the program that every driver has.

A device with uncorrected memory errors gives wrong results, and one that the driver has lost
gives none. Which of the two it is, and what to do about it, is in the text of the fault.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.agent.devices.device_faults import DeviceReading
from sokovan.agent.devices.nvidia_smi import DEVICES_MAX, PROGRAM, UNKNOWN_FIELD, QueryOutput, queried
from sokovan.domain.ids import is_name
from sokovan.ports.agent_states import DeviceFigures

UUID = "uuid"
ECC = "ecc.errors.uncorrected.volatile.total"
ROWS = "remapped_rows.failure"
HEAT = "clocks_throttle_reasons.hw_thermal_slowdown"
RECOVERY = "gpu_recovery_action"
USE = "utilization.gpu"
MEMORY_USED = "memory.used"
MEMORY = "memory.total"
TEMPERATURE = "temperature.gpu"
FIGURES = (USE, MEMORY_USED, MEMORY, TEMPERATURE)
# Drivers refuse a query with a field that they do not know: these are tried in order.
QUERIES = (
    (UUID, ECC, ROWS, HEAT, RECOVERY, *FIGURES),
    (UUID, ECC, HEAT, *FIGURES),
    (UUID, *FIGURES),
    (UUID,),
)
_DEVICE = "GPU-"
# In place of a value: errors of the driver, such as [GPU is lost]; others say that there is none.
_NO_VALUES = frozenset({"[N/A]", "[Not Supported]", "[Not Found]", "N/A"})
_PROBLEM_MAX = 120


@dataclass(slots=True)
class NvidiaHealth:
    """Reads the faults and figures of devices; `path` replaces PATH."""

    path: str | None = None
    _query: int = field(default=0, init=False)

    def read(self) -> DeviceReading:
        """Run the program once, or again with fewer fields if the driver is older."""
        while True:
            fields = QUERIES[self._query]
            done = queried(fields, self.path)
            if done is None:
                return DeviceReading(failure=f"{PROGRAM} is missing")
            if UNKNOWN_FIELD in done.text and self._query + 1 < len(QUERIES):
                self._query += 1
                continue
            return read_health(fields, done)


def read_health(fields: tuple[str, ...], done: QueryOutput) -> DeviceReading:
    """Read the output; listed devices count even if the program failed for others."""
    listed: dict[str, str] = {}
    figures: dict[str, DeviceFigures] = {}
    for row in csv.reader(done.text.splitlines(), skipinitialspace=True):
        if row and row[0].startswith(_DEVICE) and is_name(row[0]) and len(listed) < DEVICES_MAX:
            values = dict(zip(fields, row, strict=True)) if len(row) == len(fields) else {}
            listed[row[0]] = _fault({name: value for name, value in values.items() if name not in FIGURES})
            if USE in values:
                figures[row[0]] = _figures(values)
    if listed:
        return DeviceReading(listed, figures=figures)
    said = next((line.strip()[:_PROBLEM_MAX] for line in done.text.splitlines() if line.strip()), "")
    return DeviceReading(
        failure=": ".join(part for part in (done.problem or f"{PROGRAM} names no device", said) if part)
    )


def _figures(values: Mapping[str, str]) -> DeviceFigures:
    use, used, memory, temperature = (
        int(text) if (text := values.get(name, "")).isdecimal() else None for name in FIGURES
    )
    return DeviceFigures(use, _bytes(used), _bytes(memory), temperature)


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes << 20


def _fault(values: Mapping[str, str]) -> str:
    """The fault that these values show; empty if there is none."""
    for value in values.values():
        if value.startswith("[") and value not in _NO_VALUES:
            return f"{PROGRAM} reports {value[:_PROBLEM_MAX]}"
    errors = values.get(ECC, "")
    if errors.isdecimal() and int(errors):
        return f"{int(errors)} uncorrected memory errors since the driver was loaded; reset the device"
    if values.get(ROWS) == "Yes":
        return "a faulty row of its memory could not be replaced; replace the device"
    action = values.get(RECOVERY, "")
    if action and action != "None" and action not in _NO_VALUES:
        return f"the driver requests a recovery: {action[:_PROBLEM_MAX]}"
    return "it is too hot, and slowed down by its hardware" if values.get(HEAT) == "Active" else ""
