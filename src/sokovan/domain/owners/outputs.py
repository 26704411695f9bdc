"""Limits of the files that kernels leave behind, and of copies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How long and how much output is kept after the end of a session, on each agent.

    Of a session the newest files are kept, of a user the newest sessions. While kernels run,
    `kernel_disk_max` limits the folders of each, and `owner_disk_max` those of all kernels of
    a user on an agent; 0 is no limit.
    """

    retention_s: int = 7 * 24 * 3600
    session_bytes_max: int = 10 << 30
    owner_bytes_max: int = 50 << 30
    kernel_disk_max: int = 100 << 30
    owner_disk_max: int = 400 << 30


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """Limits of one copy out of a session; copies into one have those of uploads."""

    files_max: int = 20_000
    bytes_max: int = 16 << 30
