"""Recognizes a kernel that failed because a limit per process refused it memory."""

from __future__ import annotations

import resource

import pytest

from sokovan.adapters.process.shim.memory_observer import MemoryObserver

LIMITED = [[resource.RLIMIT_CORE, 0, 0], [resource.RLIMIT_DATA, 1000, 1000]]


@pytest.mark.parametrize(
    "output",
    [
        b"MemoryError\n",
        b"Traceback (most recent call last):\nMemoryError: out\n",
        b"numpy._core._exceptions._ArrayMemoryError: Unable to allocate 5 GiB",
        b"terminate called after throwing an instance of 'std::bad_alloc'",
        b"ImportError: libtorch_cuda.so: failed to map segment from shared object",
        b"sh: fork: Cannot allocate memory",
    ],
)
def test_a_message_about_memory_makes_it_probable_where_memory_is_limited(output: bytes) -> None:
    for limits, answer in ((LIMITED, True), (LIMITED[:1], False)):
        found = MemoryObserver(limits)
        found.add_output(output)
        assert found.is_probable() is answer


def test_a_message_is_found_across_pieces_and_only_near_the_end() -> None:
    found = MemoryObserver(LIMITED)
    for piece in (b"x" * 9000, b"\nMemory", b"Error\n"):
        found.add_output(piece)
    assert found.is_probable()
    found.add_output(b"recovered\n" * 1000)
    assert not found.is_probable()


def test_the_memory_of_a_device_is_another_matter() -> None:
    found = MemoryObserver(LIMITED)
    found.add_output(b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB\n")
    assert not found.is_probable()


@pytest.mark.parametrize(("peak", "answer"), [(0, False), (899, False), (900, True), (1200, True)])
def test_a_peak_close_to_the_limit_makes_it_probable(peak: int, answer: bool) -> None:
    found = MemoryObserver(LIMITED)
    found.peak = peak
    assert found.is_probable() is answer
