"""Recognizes a kernel that failed because a limit per process refused it memory.

The system reports such a refusal only to the process, which may end in any way. Two
observations make it probable: a message in its last output, and a peak close to the limit.
"""

from __future__ import annotations

import resource

_TAIL_BYTES = 4096
_NEAR_PERCENT = 90
# Messages of Python, NumPy, C++, the C library, the dynamic linker, Rust and PyTorch. The line break excludes
# errors such as torch.OutOfMemoryError, which are about the memory of a device.
_MESSAGES = (
    b"\nMemoryError",
    b"ArrayMemoryError",
    b"std::bad_alloc",
    b"annot allocate memory",
    b"failed to map segment from shared object",
    b"memory allocation of",
    b"DefaultCPUAllocator:",
)


class MemoryObserver:
    """Observes one kernel whose memory is limited by an rlimit; 0 means no limit."""

    def __init__(self, rlimits: list[list[int]]) -> None:
        self.limit = next((soft for kind, soft, _ in rlimits if kind == resource.RLIMIT_DATA), 0)
        self.peak = 0
        self._tail = b"\n"

    def add_output(self, piece: bytes) -> None:
        """Keep the last part of the output."""
        if self.limit:
            self._tail = (self._tail + piece[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def is_probable(self) -> bool:
        """Whether a failure of this kernel was probably for lack of memory."""
        if not self.limit:
            return False
        is_near = self.peak * 100 >= self.limit * _NEAR_PERCENT
        return is_near or any(message in self._tail for message in _MESSAGES)
