"""System calls that change the caller, tried in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.kernels import needs_root


def output_of(script: str) -> str:
    start = "import os, signal\nfrom sokovan.adapters.process.shim import system_calls\n"
    done = subprocess.run([sys.executable, "-c", start + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_orphans_come_to_who_adopts_them() -> None:
    script = """
system_calls.adopt_orphans()
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(7)
    os._exit(0)
os.wait()
os.write(write, b"x")
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert output_of(script) == "7"


def test_a_child_is_signalled_when_its_parent_dies() -> None:
    script = """
system_calls.adopt_orphans()
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        system_calls.die_with_parent(signal.SIGUSR1)
        os.write(write, b"x")
        signal.pause()
    os.read(read, 1)
    os._exit(0)
os.wait()
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert output_of(script) == str(-signal.SIGUSR1)


def test_privileges_are_given_up() -> None:
    script = """
system_calls.forbid_new_privileges()
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")])
"""
    assert output_of(script) == "['1']"


@needs_root
def test_the_next_program_has_no_capability() -> None:
    script = 'system_calls.drop_capabilities(); os.execvp("grep", ["grep", "CapEff", "/proc/self/status"])'
    assert output_of(script).split()[1] == "0" * 16


def test_a_call_that_is_refused_raises() -> None:
    script = """
try:
    system_calls.enter_namespaces(os.getpid())
except OSError as error:
    print(error.errno)
"""
    assert int(output_of(script)) > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the superuser")
def test_a_process_enters_the_names_of_another() -> None:
    script = """
import subprocess
with subprocess.Popen(["unshare", "--uts", "--ipc", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
    other.stdin.write(b"x"); other.stdin.flush(); other.stdout.read(1)
    system_calls.enter_namespaces(other.pid)
    same = [os.stat(f"/proc/{pid}/ns/uts").st_ino for pid in ("self", other.pid)]
    other.stdin.close()
print(same[0] == same[1])
"""
    assert output_of(script) == "True"
