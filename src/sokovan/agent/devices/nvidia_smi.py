"""NVIDIA devices by the program that every driver comes with.

It needs no package; an agent whose Python has no bindings of NVML runs it at its start.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import IO, cast

from sokovan.agent.devices.found_devices import NO_DEVICES, FoundDevices, found_devices, nvidia_labels
from sokovan.domain.ids import is_name

PROGRAM = "nvidia-smi"
FIELDS = ("uuid", "name", "memory.total", "driver_version")
MIG_MODE = "mig.mode.current"
MIG_ENABLED = "Enabled"
LIMIT_S = 20.0
# Less than a pipe holds: a program that writes more waits, and is killed at its limit.
OUTPUT_BYTES_MAX = 60 << 10
DEVICES_MAX = 256
UNKNOWN_FIELD = "not a valid field"
_KILLED_S = 1.0


@dataclass(frozen=True, slots=True)
class QueryOutput:
    """The output of the program; `problem` is set if it failed or took too long."""

    text: str = ""
    problem: str = ""


def program_devices(path: str | None = None, *, limit_s: float = LIMIT_S) -> FoundDevices:
    """The devices by UUID; none if the program is missing or fails.

    `path` replaces PATH.
    """
    # Drivers that do not know the mode have no device in it; they refuse the whole query.
    for fields in ((*FIELDS, MIG_MODE), FIELDS):
        done = queried(fields, path, limit_s=limit_s)
        if done is None or (done.problem and UNKNOWN_FIELD not in done.text):
            return NO_DEVICES
        if UNKNOWN_FIELD not in done.text:
            return read_devices(done.text)
    return NO_DEVICES


def read_devices(text: str) -> FoundDevices:
    """Read the output of the program; lines of another form are left out."""
    rows = [
        row
        for row in csv.reader(text.splitlines(), skipinitialspace=True)
        if len(FIELDS) <= len(row) <= len(FIELDS) + 1 and row[0].startswith("GPU-") and is_name(row[0])
    ][:DEVICES_MAX]
    if not rows:
        return NO_DEVICES
    _, model, mebibytes, driver = rows[0][: len(FIELDS)]
    memory = int(mebibytes) << 20 if mebibytes.isdecimal() else 0  # [N/A] where it is that of the machine
    labels = nvidia_labels(model=model, memory_bytes=memory, driver=driver)
    partitioned = [row[0] for row in rows if row[len(FIELDS) :] == [MIG_ENABLED]]
    return found_devices(list(dict.fromkeys(row[0] for row in rows)), partitioned, labels=labels, source=PROGRAM)


def queried(fields: Sequence[str], path: str | None = None, *, limit_s: float = LIMIT_S) -> QueryOutput | None:
    """The values of these fields, a line per device; None if the program is missing."""
    return printed((f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"), path, limit_s=limit_s)


def printed(words: Sequence[str], path: str | None = None, *, limit_s: float = LIMIT_S) -> QueryOutput | None:
    """The output of the program with these words; None if it is missing."""
    program = shutil.which(PROGRAM, path=path)
    if program is None:
        return None
    try:
        process = subprocess.Popen(  # noqa: S603  # an argv list, built here
            [program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        )
    except OSError as error:
        return QueryOutput(problem=f"{PROGRAM} cannot be executed: {error.strerror}")
    with closing(cast("IO[bytes]", process.stdout)) as output:
        try:
            code = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # it may hang in the driver
                process.wait(timeout=_KILLED_S)
            return QueryOutput(problem=f"{PROGRAM} did not end within {limit_s:g} s")
        # A child of it may hold the pipe: what is there is taken, without waiting for the end.
        os.set_blocking(output.fileno(), False)
        text = (output.read(OUTPUT_BYTES_MAX) or b"").decode(errors="replace")
    return QueryOutput(text, f"{PROGRAM} failed with code {code}" if code else "")
