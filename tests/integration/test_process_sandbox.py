"""The permissions of a kernel in a sandbox."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import sokovan
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.fork_server import FORK_SERVER
from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation import confinement, sandbox
from sokovan.adapters.process.isolation.bubblewrap import bundled_bubblewrap
from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.isolation.system_call_filter import DENIED
from sokovan.adapters.process.launch.launch_plan import plan_of
from sokovan.adapters.process.layout import KernelLayout, open_lock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.domain.ids import KernelId
from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.toy import ToyGenerator
from sokovan.ports.runtime import PathUnavailable, ProgramNotFound, SandboxFailed
from sokovan.wire.frames import MountEntry
from tests.kernels import SLEEP, ended, kill, launch, needs_sandbox, output, place, relatives, runtime_in, said

pytestmark = needs_sandbox

# Tries things and says which of them worked.
TRIES = """
import json, os, socket
def tried(action):
    try:
        return action() or True
    except Exception as error:
        return type(error).__name__
def status():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    return {name: lines[name].strip() for name in ("CapEff", "CapPrm", "NoNewPrivs")}
print(json.dumps({name: tried(action) for name, action in {ACTIONS}.items()}))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
async def runtime(root: Path, tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "token").write_text("secret")
    async with runtime_in(root, bubblewrap="bwrap", hidden=(tmp_path / "credentials",)) as ready:
        yield ready


async def tried(runtime: ProcessRuntime, actions: dict[str, str], **changes: Any) -> dict[str, Any]:
    """The outcome of each action inside a kernel."""
    written = "{" + ", ".join(f"{name!r}: lambda: {action}" for name, action in actions.items()) + "}"
    await runtime.create(launch("tries", TRIES.replace("{ACTIONS}", written), **changes))
    await ended(runtime, "tries")
    found: dict[str, Any] = json.loads(await output(runtime, "tries"))
    return found


async def test_a_kernel_has_no_capabilities_and_gains_none(runtime: ProcessRuntime) -> None:
    found = await tried(runtime, {"status": "status()"})
    assert found["status"] == {"CapEff": "0" * 16, "CapPrm": "0" * 16, "NoNewPrivs": "1"}


async def test_a_sandbox_whose_program_gains_rights_confines_as_well(
    runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "gains_rights", lambda _program: True)
    score = "open('/proc/self/oom_score_adj').read()"
    found = await tried(runtime, {"status": "status()", "score": score, "root": "open('/mine', 'w').close()"})
    assert found["status"] == {"CapEff": "0" * 16, "CapPrm": "0" * 16, "NoNewPrivs": "1"}
    assert found["score"] == "500\n"
    assert found["root"] in {"OSError", "PermissionError"}


async def test_a_kernel_sees_its_own_processes_only(runtime: ProcessRuntime) -> None:
    found = await tried(
        runtime,
        {"pids": "len([name for name in os.listdir('/proc') if name.isdigit()])", "kill": "os.kill(-1, 0)"},
    )
    assert found["pids"] <= 3


async def test_a_kernel_writes_to_its_own_folder_and_to_private_places_only(runtime: ProcessRuntime) -> None:
    found = await tried(
        runtime,
        {
            "work": "open('mine', 'w').close()",
            "tmp": "open('/tmp/of-a-test-of-sokovan', 'w').close()",
            "root": "open('/mine', 'w').close()",
            "usr": "open('/usr/mine', 'w').close()",
            "etc": "open('/etc/mine', 'w').close()",
            "above": "open('../mine', 'w').close()",
        },
    )
    assert found["work"] is True
    assert found["tmp"] is True
    assert {found[name] for name in ("root", "usr", "etc", "above")} <= {"OSError", "PermissionError"}
    assert not Path("/tmp/of-a-test-of-sokovan").exists()  # noqa: S108, ASYNC240  # what is asked is whether the sandbox leaks into it


async def test_a_kernel_sees_no_secrets_of_the_machine(runtime: ProcessRuntime, root: Path, tmp_path: Path) -> None:
    await runtime.create(launch("neighbour", SLEEP, files={"mine": "secret"}))
    found = await tried(
        runtime,
        {
            "credentials": f"open({str(tmp_path / 'credentials' / 'token')!r}).read()",
            "neighbour": f"open({str(place(root, 'neighbour') / 'work' / 'mine')!r}).read()",
            "shadow": "open('/etc/shadow').read() == ''",
            "kernels": f"os.listdir({str(root / 'kernels')!r})",
            "control": f"os.path.exists({str(place(root, 'tries') / 'control.sock')!r}) or 'absent'",
            "others": "[name for name in ('/run', '/mnt', '/srv') if os.path.exists(name)] or 'absent'",
            "home": f"os.listdir({str(Path.home())!r})",
        },
    )
    assert found["credentials"] in {"FileNotFoundError", "NotADirectoryError"}
    assert found["neighbour"] == "FileNotFoundError"
    assert found["shadow"] in {True, "FileNotFoundError", "PermissionError"}
    assert found["kernels"] == [place(root, "tries").name]
    assert found["control"] == "absent"
    assert found["others"] == "absent"
    # The interpreter and the package may be installed below the home folder; nothing else of it is there.
    installed = (sys.prefix, sys.base_prefix, Path(sokovan.__file__).parent)
    below = [Path(place) for place in installed if Path(place).is_relative_to(Path.home())]
    shown = {place.relative_to(Path.home()).parts[0] for place in below}
    assert found["home"] == "FileNotFoundError" if not shown else set(found["home"]) == shown, found["home"]


async def test_a_kernel_runs_where_the_folder_above_the_runtime_is_hidden_too(tmp_path: Path) -> None:
    # As an agent has it: its runtime's root lies inside the data folder, and both are hidden.
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").write_text("secret")
    async with runtime_in(data / "agent" / "kernels", bubblewrap="bwrap", hidden=(data,)) as runtime:
        found = await tried(
            runtime, {"token": f"open({str(data / 'token')!r}).read()", "work": "open('a', 'w').close()"}
        )
    assert found == {"token": "FileNotFoundError", "work": True}


async def test_a_mount_is_where_it_was_asked_for_and_may_be_read_only(runtime: ProcessRuntime, tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    found = await tried(
        runtime,
        {
            "read": "open('/data/sets/file').read()",
            "read_only": "open('/data/sets/new', 'w').close()",
            "write": "open('/shared/new', 'w').write('x')",
        },
        mounts=(
            MountEntry(str(tmp_path / "read"), "/data/sets"),
            MountEntry(str(tmp_path / "write"), "/shared", read_only=False),
        ),
    )
    assert found["read"] == "read"
    assert found["read_only"] == "OSError"
    assert (tmp_path / "write" / "new").read_text() == "x"
    assert not (tmp_path / "read" / "new").exists()


async def test_variables_of_the_user_do_not_reach_the_sandbox_itself(runtime: ProcessRuntime, tmp_path: Path) -> None:
    # A library named in LD_PRELOAD would be reported by the sandbox's own program too.
    missing = str(tmp_path / "missing.so")
    script = "print('up')"
    await runtime.create(launch("k", script, environment={"LD_PRELOAD": missing, "A": "b"}))
    await ended(runtime, "k")
    lines = (await output(runtime, "k")).decode().splitlines()
    assert lines[-1] == "up"
    assert sum(missing in line for line in lines) == 1


async def test_a_further_command_is_as_confined_as_its_kernel(runtime: ProcessRuntime) -> None:
    await runtime.create(launch("k", SLEEP))
    await said(runtime, "k", b"up\n")
    script = (
        "import os\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs'))],\n"
        "      len([name for name in os.listdir('/proc') if name.isdigit()]) < 10, os.access('/usr', os.W_OK))"
    )
    async with runtime.execute(KernelId("k"), 1, ("python", "-c", script), terminal=False) as command:
        heard = b"".join([piece async for piece in command.output()])
    assert heard == b"['0000000000000000', '1'] True False\n"


async def test_a_killed_shim_takes_the_whole_sandbox_with_it(runtime: ProcessRuntime, root: Path) -> None:
    script = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    print('up', flush=True)\ntime.sleep(600)"
    await runtime.create(launch("k", script))
    await said(runtime, "k", b"up\n")
    record = json.loads((place(root, "k") / "state.json").read_text())
    kill(record["shim_pid"])
    assert (await ended(runtime, "k")).reason == "shim lost"
    assert relatives(root) == []


async def test_a_command_that_comes_at_once_does_not_slip_in_before_the_sandbox_is_up(runtime: ProcessRuntime) -> None:
    look = ("python", "-c", "import os; print(os.path.exists('/proc/1/root/run') or os.path.exists('/run'))")
    for number in range(5):
        await runtime.create(launch(f"k{number}", SLEEP))
        async with runtime.execute(KernelId(f"k{number}"), 1, look, terminal=False) as command:
            assert b"".join([piece async for piece in command.output()]) == b"False\n"


async def test_a_sandbox_that_fails_to_start_is_a_failure_of_the_machine_and_not_an_exit_of_the_kernel(
    tmp_path: Path,
) -> None:
    broken, real = tmp_path / "bwrap", shutil.which("bwrap")
    broken.write_text(
        f'#!/bin/sh\n[ -e {tmp_path}/broken ] && echo "bwrap: No permissions" >&2 && exit 1\nexec {real} "$@"\n'
    )
    broken.chmod(0o755)
    async with runtime_in(tmp_path / "root", bubblewrap=str(broken)) as runtime:
        assert (await runtime.confinement()).sandbox.program == str(broken)
        (tmp_path / "broken").touch()
        with pytest.raises(SandboxFailed, match="No permissions"):
            await runtime.create(launch("k", SLEEP))
        assert await runtime.observe() == []
        (tmp_path / "broken").unlink()
        await runtime.create(launch("k", "print('up')"))
        assert (await ended(runtime, "k")).exit_code == 0


async def test_a_program_that_a_sandbox_does_not_find_is_named(runtime: ProcessRuntime, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    mounts = (MountEntry(str(tmp_path / "data"), "/data"),)
    with pytest.raises(ProgramNotFound, match="/data/missing: No such file"):
        await runtime.create(launch("k", "/data/missing", "x", mounts=mounts))


async def test_a_kernel_that_ends_at_once_has_run(runtime: ProcessRuntime) -> None:
    for number in range(5):
        await runtime.create(launch(f"k{number}", "true", ""))
        assert (await ended(runtime, f"k{number}")).exit_code == 0


async def test_a_kernel_inherits_no_open_files(runtime: ProcessRuntime) -> None:
    listed = "sorted(int(name) for name in os.listdir('/proc/self/fd'))[:-1]"
    assert (await tried(runtime, {"files": listed}))["files"] == [0, 1, 2]


CALLS = """
import ctypes, json, os, platform
libc = ctypes.CDLL(None, use_errno=True)
column = 0 if platform.machine() == "x86_64" else 1
found = {}
for name, numbers in DENIED.items():
    ctypes.set_errno(0)
    found[name] = [libc.syscall(numbers[column], -1, -1, -1, -1, -1), ctypes.get_errno()]
found["clone"] = [libc.syscall((56, 220)[column], 0x10000000, 0, 0, 0, 0), ctypes.get_errno()]
found["ioctl"] = [libc.ioctl(0, 0x5412, b"x"), ctypes.get_errno()]
found["clone3"] = [libc.syscall(435, 0, 0), ctypes.get_errno()]
print(json.dumps(found), flush=True)
"""


async def test_system_calls_that_no_kernel_needs_are_refused_also_to_further_commands(runtime: ProcessRuntime) -> None:
    script = CALLS.replace("DENIED", repr(DENIED))
    expected = {name: [-1, errno.EPERM] for name in (*DENIED, "clone", "ioctl")} | {"clone3": [-1, errno.ENOSYS]}
    await runtime.create(launch("k", script + "import time; time.sleep(600)"))
    assert json.loads(await said(runtime, "k", b"clone3")) == expected
    async with runtime.execute(KernelId("k"), 1, (sys.executable, "-c", script), terminal=False) as command:
        said_there = b"".join([piece async for piece in command.output()])
    assert json.loads(said_there) == expected


# A sandbox that first puts a link to the system where the folder was: between the check and the bind.
SWAPS = """#!/bin/sh
case "$*" in *--help*) exec {bwrap} --help;; esac
if [ -d {folder} ] && [ ! -L {folder} ] && [ -e {armed} ]; then
    mv {folder} {folder}-aside
    ln -s /etc {folder}
fi
exec {bwrap} "$@"
"""


@pytest.fixture
async def swapping(root: Path, tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    """A runtime whose sandbox is set up after a link took the place of the folder `mine`."""
    bundled = bundled_bubblewrap()
    assert bundled is not None
    folder, program, armed = tmp_path / "mine", tmp_path / "bwrap", tmp_path / "armed"
    folder.mkdir()
    (folder / "file").write_text("mine")
    program.write_text(SWAPS.format(bwrap=bundled, folder=folder, armed=armed))
    program.chmod(0o755)
    async with runtime_in(root, bubblewrap=str(program)) as ready:
        await ready.confinement()
        armed.touch()
        yield ready


@pytest.mark.parametrize("named", ["mount", "workdir"])
async def test_a_link_that_appears_between_check_and_bind_leads_nowhere(
    swapping: ProcessRuntime, tmp_path: Path, named: str
) -> None:
    mine = str(tmp_path / "mine")
    asked = {"mounts": (MountEntry(mine, "/data"),)} if named == "mount" else {"workdir": mine}
    target = "/data" if named == "mount" else mine
    await swapping.create(launch("k", f"import os; print(sorted(os.listdir({target!r})))", **asked))
    await ended(swapping, "k")
    assert (tmp_path / "mine").is_symlink()  # what the test itself made
    assert (await output(swapping, "k")).decode().splitlines()[-1] == "['file']"


async def test_a_link_that_appears_after_the_agent_has_checked_is_refused_by_the_shim(
    runtime: ProcessRuntime, root: Path, tmp_path: Path
) -> None:
    confined = await runtime.confinement()
    (tmp_path / "mine").mkdir()
    layout = KernelLayout(root)
    place = layout.kernels / "k-1"
    (place / "work").mkdir(parents=True)
    asked = launch("k", "pass", mounts=(MountEntry(str(tmp_path / "mine"), "/data"),))
    plan = plan_of(
        asked, place, sandbox=confined.sandbox, images=ProcessImages(layout, SystemClock(), {}), marks={"A": "b"}
    )
    (tmp_path / "mine").rmdir()
    (tmp_path / "mine").symlink_to("/etc")
    plan.update(groups={"version": 0, "folders": {}}, rlimits=[])
    lock = open_lock(place, wait=True)
    with pytest.raises(PathUnavailable, match="symbolic link"):
        FORK_SERVER.run_shim({**plan, "lock": lock}, lock)
    os.close(lock)


async def test_folders_in_memory_are_no_larger_than_the_memory_of_the_kernel(
    runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "probe_hierarchies", Hierarchies)  # which would end the kernel instead
    fill = "sum(open(PLACE + '/big', 'ab', 0).write(bytes(1 << 20)) for _ in range(40)) >> 20"
    places = ("/tmp", "/var/tmp", "/dev/shm", "/dev")  # noqa: S108  # private to the sandbox
    actions = {place: fill.replace("PLACE", repr(place)) for place in places}
    found = await tried(runtime, actions, slots={"cpu": 1000, "mem": 32 << 20})
    assert found == dict.fromkeys(places, "OSError")


async def test_a_link_in_a_folder_of_the_user_does_not_choose_where_folders_are_created(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    own, victim = tmp_path / "own", tmp_path / "victim"
    own.mkdir()
    victim.mkdir()
    (own / "link").symlink_to(f"/oldroot{victim}")  # where the sandbox has the machine's root while it begins
    mounts = (MountEntry(str(own), "/data", read_only=False), MountEntry(str(own), "/data/link/created"))
    with pytest.raises(PathUnavailable, match="another folder of the kernel"):
        await runtime.create(launch("k", "pass", mounts=mounts))
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize(
    "source", ["/var/run", "/etc", "/root/.ssh", "LINK", "LINK/ssl", "HIDDEN", "HIDDEN/..", "DATA"]
)
async def test_folders_of_the_machine_that_are_not_for_sessions_are_not_mounted(
    runtime: ProcessRuntime, root: Path, tmp_path: Path, source: str
) -> None:
    (tmp_path / "link").symlink_to("/etc")
    for word, folder in {"LINK": tmp_path / "link", "HIDDEN": tmp_path / "credentials", "DATA": root}.items():
        source = source.replace(word, str(folder))
    for asked in ({"mounts": (MountEntry(source, "/data"),)}, {"workdir": source}):
        with pytest.raises(PathUnavailable) as refused:
            await runtime.create(launch("k", "pass", **asked))
        assert refused.value.code == "path-unavailable"
    assert await runtime.observe() == []
    assert relatives(root) == []


async def test_the_toy_engine_runs_inside_a_kernel(runtime: ProcessRuntime) -> None:
    command = ToyGenerator().define(EngineRequest(variant="toy", served_name="m", port="0")).command
    await runtime.create(launch("toy", *command, "--exit-code", "7"))
    assert (await ended(runtime, "toy")).exit_code == 7
