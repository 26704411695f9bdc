"""A kernel that leaves control is ended, and its slots are freed with a proof only."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim.system_calls import can_separate
from sokovan.agent.watcher import WatchOptions
from sokovan.domain.cluster.agent import NO_ACCOUNTS
from sokovan.domain.ids import KernelId
from sokovan.wire.frames import OutputTerms
from tests.integration.agent_rig import AGENT, Agent, Manager, Register, comes_true
from tests.kernels import ended, launch, needs_root, needs_sandbox, output, runtime_in, said

NUMBERS = range(300_000, 300_100)
# Removes its own folder, forgets its variables and closes its output; says its number elsewhere.
REMOVES_ITS_FOLDER = """
import os, shutil, sys
place = os.path.dirname(os.getcwd())
note = os.open(PLACE, os.O_WRONLY | os.O_CREAT)
os.write(note, str(os.getpid()).encode())
shutil.rmtree(place)
nothing = os.open("/dev/null", os.O_RDWR)
for stream in range(3):
    os.dup2(nothing, stream)
os.execve(sys.executable, ["x", "-I", "-c", "import time; time.sleep(600)"], {})
"""


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(tmp_path / "root") as ready:
        yield ready


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    made = Manager(Register())
    await made.start()
    yield made
    await made.stop()


async def test_a_kernel_that_removes_its_own_folder_is_ended_and_its_end_is_proved(
    runtime: ProcessRuntime, manager: Manager, tmp_path: Path
) -> None:
    agent = Agent(
        tmp_path / "agent",
        manager.address,
        runtime=runtime,
        watch=WatchOptions(changes=runtime.changes, ended=runtime.ended),
    )
    await comes_true(lambda: AGENT in manager.states)
    note = tmp_path / "note"
    script = REMOVES_ITS_FOLDER.replace("PLACE", repr(str(note)))
    await manager.agents.create_kernel(AGENT, 1, launch("k", script, slots={"cpu": 500}))

    await comes_true(lambda: (report := manager.report("k")) is not None and report.exit_code == 137)
    assert processes.look_up(int(note.read_text())) is None
    proof = await manager.agents.stop_kernel(AGENT, 1, KernelId("k"), 1, grace_s=0)
    assert proof.gone
    await agent.stop()


# Each trick returns if it has worked, and raises if it has not.
TRICKS = {
    "inherit a file": "1 / (len(os.listdir('/proc/self/fd')) - 4)",
    "read the password file": "open('/etc/shadow').read()",
    "read the keys of the ssh server": "os.listdir('/etc/ssh')",
    "list homes": "os.listdir('/root') + os.listdir('/home')",
    "read the credentials of the agent": "open(CREDENTIALS).read()",
    "read the credentials by the first process": "open('/proc/1/root' + CREDENTIALS).read()",
    "read the records of its kernel": "open('../state.json').read()",
    "list other kernels": "1 / (len(os.listdir('../..')) - 1)",
    "reach the socket of its shim": "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('../control.sock')",
    "reach the socket of a container engine": "socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')",
    "list sockets of the system": "os.listdir('/run')",
    "write to the root": "open('/mine', 'w')",
    "write to the programs": "open('/usr/bin/mine', 'w')",
    "write to the accounts": "open('/etc/passwd', 'a')",
    "overwrite its program": "open('/proc/self/exe', 'r+b')",
    "change where core files go": "open('/proc/sys/kernel/core_pattern', 'w')",
    "trigger the system": "open('/proc/sysrq-trigger', 'w')",
    "read the memory of the system": "open('/proc/kcore', 'rb').read(1)",
    "read physical memory": "open('/dev/mem', 'rb')",
    "read a disk": "open('/dev/sda', 'rb')",
    "read the log of the system": "open('/dev/kmsg')",
    "make a device": "os.mknod('/tmp/disk', stat.S_IFBLK | 0o600, os.makedev(8, 0))",
    "see devices of the system": "os.listdir('/sys')",
    "see control groups": "os.listdir('/sys/fs/cgroup')",
    "see the agent": "os.stat('/proc/%d' % AGENT)",
    "signal the agent": "os.kill(AGENT, 0)",
    "trace the first process": "called(libc.ptrace, 16, 1, 0, 0)",
    "mount": "called(libc.mount, b'none', b'/tmp', b'tmpfs', 0, None)",
    "unmount": "called(libc.umount2, b'/tmp', 2)",
    "make a user namespace": "called(libc.unshare, 0x10000000)",
    "make a mount namespace": "called(libc.unshare, 0x00020000)",
    "enter a namespace": "called(libc.setns, os.open('/proc/self/ns/mnt', os.O_RDONLY), 0)",
    "change the root": "os.chroot('/tmp')",
    "become root": "1 / int(os.getuid() != 0) and os.setuid(0)",
    "become another account": "os.setuid(12345)",
    "join another group": "os.setgroups([0, 4])",
    "gain capabilities by a program": "capable('su', '-c', 'id') or 1 / 0",
    "change the name of the machine": "socket.sethostname('mine')",
    "set the clock": "time.clock_settime(time.CLOCK_REALTIME, 1)",
    "capture packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "make raw packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "take a privileged port": "socket.socket().bind(('127.0.0.1', 999))",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_CORE, (1, 1))",
    "raise its priority": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
    "run in real time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "type into its terminal": "fcntl.ioctl(0, 0x5412, b'x')",
    "reach a socket without a file": "socket.socket(socket.AF_UNIX).connect(ABSTRACT)",
    "see memory shared by others": "1 / (len(open('/proc/sysvipc/shm').readlines()) - 1)",
}
ESCAPES = """
import ctypes, fcntl, json, os, resource, socket, stat, subprocess, time
libc = ctypes.CDLL(None, use_errno=True)
AGENT, CREDENTIALS, ABSTRACT = {agent}, {credentials!r}, {abstract!r}
def called(call, *arguments):
    if call(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "refused")
def capable(*command):
    return b"uid=0" in subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).stdout
worked = []
for name, trick in {tricks!r}.items():
    try:
        eval(trick)
    except Exception:
        continue
    worked.append(name)
print(json.dumps(worked))
"""


@needs_sandbox
@pytest.mark.parametrize(
    "accounts", [pytest.param(NO_ACCOUNTS, id="shared"), pytest.param(NUMBERS, id="per-user", marks=needs_root)]
)
async def test_every_known_trick_fails_in_a_sandbox(tmp_path: Path, accounts: range) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "token").write_text("secret")
    machine = socket.socket(socket.AF_UNIX)
    machine.bind("")  # the system chooses a name without a file
    machine.listen()
    script = ESCAPES.format(
        agent=os.getpid(), credentials=str(keys / "token"), abstract=machine.getsockname(), tricks=TRICKS
    )
    terms = OutputTerms("mallory", 60, 1 << 20, 1 << 20)
    async with runtime_in(tmp_path / "root", bubblewrap="bwrap", hidden=(keys,), accounts=accounts) as runtime:
        await runtime.create(launch("other", "import time; time.sleep(600)", output=terms))
        await runtime.create(launch("k", script, output=terms))
        await ended(runtime, "k")
        # Without accounts, the number of root is in its user namespace that of the agent, without any of its rights.
        known = set() if accounts else {"become root"}
        known |= set() if can_separate() else {"reach a socket without a file"}
        assert set(json.loads(await output(runtime, "k"))) - known == set()
    machine.close()


@needs_sandbox
async def test_processes_of_one_kernel_reach_the_sockets_without_files_of_one_another(tmp_path: Path) -> None:
    serves = """
import socket
door = socket.socket(socket.AF_UNIX)
door.bind(b"\\0mine")
door.listen()
print("open", flush=True)
door.accept()
"""
    asks = "import socket; socket.socket(socket.AF_UNIX).connect(b'\\0mine')"
    async with runtime_in(tmp_path / "root", bubblewrap="bwrap") as runtime:
        await runtime.create(launch("k", serves))
        await said(runtime, "k", b"open")
        async with runtime.execute(KernelId("k"), 1, ("python", "-c", asks), terminal=False) as command:
            assert [piece async for piece in command.output()] == []
        assert (await ended(runtime, "k")).exit_code == 0
