"""Creates the user namespaces in which kernels run under an account of their own.

In the first one the sandbox is set up, with rights over files of root and of the account;
in the second one, inside it, the kernel runs, and there is no other account.
"""

from __future__ import annotations

import os
import sys

from sokovan.adapters.process.shim import system_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Root must not be number 0 in it: a process that leaves number 0 loses its rights, and they are needed until the end.
_ROOT_INSIDE = 1


def main() -> None:
    """Create both for the numbers in the arguments, and hold them until input ends.

    Writes the numbers of the two processes whose namespaces they are.
    """
    unused, number = int(sys.argv[2]), int(sys.argv[3])
    outer_map = f"0 {unused} 1\n{_ROOT_INSIDE} 0 1\n{number} {number} 1\n"
    os.write(1, f"{_begin(outer_map, lambda: _hold_inner(number))} ".encode())
    os.read(0, 1)


def _hold_inner(number: int) -> None:
    os.write(1, f"{_begin(f'{number} {number} 1', lambda: None)} ".encode())


def _begin(mapping: str, then: Callable[[], None]) -> int:
    """Start a process in a new user namespace with these accounts, and return its pid.

    Ends this process if the machine does not allow it.
    """
    reader, writer = os.pipe()
    mapped_reader, mapped_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.close(mapped_writer)
        try:
            system_calls.make_user_namespace()
            os.write(writer, b"1")
            if os.read(mapped_reader, 1):  # else the parent has ended
                then()
                os.read(0, 1)
        finally:
            os._exit(0)
    os.close(writer)
    os.close(mapped_reader)
    if not os.read(reader, 1):
        os._exit(1)
    for file in ("uid_map", "gid_map"):
        with open(f"/proc/{pid}/{file}", "w", encoding="ascii") as stream:  # few imports
            stream.write(mapping)
    os.write(mapped_writer, b"1")
    return pid
