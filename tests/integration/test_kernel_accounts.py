"""Kernels of an agent that is root run under an account per user."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.process.files.output_collection import OutputCollector
from sokovan.adapters.process.files.process_files import ProcessFiles
from sokovan.adapters.process.isolation import confinement
from sokovan.adapters.process.isolation.accounts import _free_place
from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.domain.ids import KernelId
from sokovan.ports.kernel_files import FileRefused, KernelPath
from sokovan.ports.runtime import PathUnavailable
from sokovan.wire.frames import CreateKernel, MountEntry, OutputTerms
from tests.kernels import SLEEP, ended, launch, needs_root, needs_sandbox, output, place, runtime_in, said
from tests.unit.adapters.process.files.kernels import Uploads

pytestmark = [needs_root, needs_sandbox]

NUMBERS = range(300_000, 300_100)
# That of ada on any agent with this range.
ADA = NUMBERS[_free_place("ada", set(), len(NUMBERS))]
OTHER = ADA + 1
LOOKS = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
open("made", "w").write("mine"); open(os.environ["SOKOVAN_OUTPUT"] + "/kept", "w").write("mine")
print(json.dumps({
    "numbers": [os.getuid(), os.getgid(), os.getgroups()],
    "capabilities": status["CapEff"].strip(), "accounts": open("/proc/self/uid_map").read().split(),
    "files": len(os.listdir("/proc/self/fd")), "hostfile": os.access("note", os.W_OK),
}))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
async def runtime(root: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(root, bubblewrap="bwrap", accounts=NUMBERS) as ready:
        assert "an account per user" in (await ready.confinement()).in_words()
        yield ready


def of(owner: str, name: str, script: str, **changes: Any) -> CreateKernel:
    """A kernel of a user."""
    return launch(name, script, output=OutputTerms(owner, 60, 1 << 20, 1 << 20), **changes)


async def test_a_kernel_has_the_number_of_its_user_and_nothing_of_root(runtime: ProcessRuntime, root: Path) -> None:
    await runtime.create(of("ada", "k", LOOKS, files={"note": "x"}))
    assert (await ended(runtime, "k")).exit_code == 0, await output(runtime, "k")
    found = json.loads(await output(runtime, "k"))
    assert found["numbers"] == [ADA, ADA, []]
    assert found["capabilities"] == "0" * 16
    assert found["accounts"] == [str(ADA), str(ADA), "1"]
    assert found["files"] == 4
    assert found["hostfile"]
    made = [place(root, "k") / "work" / "made", *(root / "outputs").rglob("kept")]
    assert [path.stat().st_uid for path in made] == [ADA] * 2
    records = [place(root, "k"), place(root, "k") / "state.json", root / "kernels", root / "accounts.json"]
    assert [path.stat().st_uid for path in records] == [0] * 4


async def test_an_account_is_the_same_for_ever_and_of_one_user_only(root: Path) -> None:
    numbers: list[int] = []
    for user in ("ada", "bob", "ada"):
        async with runtime_in(root, bubblewrap="bwrap", accounts=NUMBERS) as runtime:
            await runtime.create(of(user, f"k{len(numbers)}", "import os; print(os.getuid())"))
            await ended(runtime, f"k{len(numbers)}")
            numbers.append(int(await output(runtime, f"k{len(numbers)}")))
    assert numbers[0] == numbers[2] != numbers[1]
    assert {*numbers} < {*NUMBERS[1:]}


async def test_kernels_of_two_users_can_neither_read_nor_signal_one_another(
    runtime: ProcessRuntime, root: Path, open_path: Path
) -> None:
    shared = open_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    mounts = (MountEntry(str(shared), "/shared", read_only=False),)
    keeps = (
        "import os; os.umask(0o077); open('/shared/secret', 'w').write('x'); open('secret', 'w').write('x');" + SLEEP
    )
    await runtime.create(of("ada", "victim", keeps, mounts=mounts))
    await said(runtime, "victim", b"up")
    work = place(root, "victim") / "work" / "secret"
    tries = f"""
import os
for trick in (
    lambda: open('/shared/secret').read(), lambda: os.unlink('/shared/secret'), lambda: open({str(work)!r}).read(),
    lambda: os.kill({os.getpid()}, 0), lambda: os.setuid({ADA}), lambda: os.setuid(0),
    lambda: os.chown('/shared', os.getuid(), -1),
):
    try:
        trick()
        print('worked')
    except OSError:
        print('refused')
print([pid for pid in os.listdir('/proc') if pid.isdigit()])
"""
    await runtime.create(of("bob", "k", tries, mounts=mounts))
    await ended(runtime, "k")
    *outcomes, seen = (await output(runtime, "k")).decode().splitlines()
    assert outcomes == ["refused"] * 7
    assert len(seen.split(",")) <= 3


async def test_a_further_command_has_the_account_of_its_kernel(runtime: ProcessRuntime) -> None:
    await runtime.create(of("ada", "k", SLEEP))
    await said(runtime, "k", b"up")
    script = "import os; print(os.getresuid(), os.getresgid(), os.getgroups()); print(open('/proc/self/status').read())"
    async with runtime.execute(KernelId("k"), 1, (sys.executable, "-c", script), terminal=False) as command:
        text = b"".join([piece async for piece in command.output()]).decode()
    assert text.startswith(f"({ADA}, {ADA}, {ADA}) ({ADA}, {ADA}, {ADA}) []")
    assert "CapEff:\t0000000000000000" in text


async def test_the_only_user_works_in_folders_of_the_agents_own_account(
    runtime: ProcessRuntime, open_path: Path
) -> None:
    mine = open_path / "mine"
    mine.mkdir()
    await runtime.create(of("ada", "k", "open('made', 'w')", workdir=str(mine), owns_folders=True))
    assert (await ended(runtime, "k")).exit_code == 0
    assert (mine / "made").exists()
    await runtime.create(of("ada", "other", "open('made', 'w')", workdir=str(mine)))
    assert (await ended(runtime, "other")).exit_code == 1


async def test_a_folder_that_the_account_may_not_enter_is_the_fault_of_the_session(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(PathUnavailable, match="Permission denied"):
        await runtime.create(of("ada", "k", "pass", workdir=str(closed)))


async def test_what_the_account_may_not_enter_is_not_mounted_for_it(runtime: ProcessRuntime, open_path: Path) -> None:
    theirs = open_path / "bob"
    (theirs / "data").mkdir(parents=True)
    (theirs / "data").chmod(0o777)
    os.chown(theirs, OTHER, OTHER)
    theirs.chmod(0o700)
    for source in (theirs, theirs / "data"):
        mounts = (MountEntry(str(source), "/data", read_only=False),)
        if source != theirs:  # the folder itself is open, the way to it is not
            with pytest.raises(PathUnavailable, match="Permission denied"):
                await runtime.create(of("ada", "k", "pass", mounts=mounts))
        else:
            await runtime.create(of("ada", "l", "import os; os.listdir('/data')", mounts=mounts))
            assert (await ended(runtime, "l")).exit_code == 1


async def test_files_are_copied_with_the_rights_of_the_account(
    runtime: ProcessRuntime, root: Path, open_path: Path
) -> None:
    shared, secret = open_path / "shared", open_path / "shared" / "secret"
    shared.mkdir()
    (shared / "open").write_text("for all")
    (shared / "theirs").mkdir()
    secret.write_text("known to bob")
    secret.chmod(0o600)
    os.chown(secret, OTHER, OTHER)
    await runtime.create(
        of("ada", "k", SLEEP, mounts=(MountEntry(str(shared), "/data", read_only=False),), files={"own": "mine"})
    )
    await said(runtime, "k", b"up")
    (place(root, "k") / "work" / "closed").write_text("mine")
    (place(root, "k") / "work" / "closed").chmod(0)
    uploads = Uploads()
    receiver = UploadFolders(root, uploads)
    files = ProcessFiles(root, uploads=receiver, outputs=OutputCollector(root, print))
    for path, content in (("/data/open", b"for all"), ("own", b"mine"), ("closed", b"mine")):
        found = await files.read(KernelPath(KernelId("k"), 1, path), offset=0, limit=100, mark="")
        assert found.data == content
    with pytest.raises(FileRefused, match="Permission denied"):
        await files.read(KernelPath(KernelId("k"), 1, "/data/secret"), offset=0, limit=100, mark="")
    upload = uploads.add({"new": b"brought"})
    with pytest.raises(FileRefused, match="Permission denied"):
        await files.put(KernelPath(KernelId("k"), 1, "/data/theirs/"), upload)
    shared.chmod(0o1777)
    placed = await files.put(KernelPath(KernelId("k"), 1, "/data/"), upload)
    assert (placed.done, (shared / "new").read_bytes(), (shared / "new").stat().st_uid) == (True, b"brought", ADA)
    placed = await files.put(KernelPath(KernelId("k"), 1, "./"), upload)
    assert (place(root, "k") / "work" / "new").stat().st_uid == ADA
    assert os.geteuid() == 0
    assert secret.read_text() == "known to bob", "the rights of the agent are back"


FORKS = """
import os, time
made = 0
try:
    while made < 200:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except BlockingIOError:
    pass
print(made)
"""


async def test_without_control_groups_the_processes_of_an_account_are_limited(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "probe_hierarchies", Hierarchies)
    # An account of its own: processes that other tests have under one when a kernel starts are added to its limit.
    async with runtime_in(root, bubblewrap="bwrap", accounts=range(300_200, 300_300)) as runtime:
        assert "processes by rlimit, per account" in (await runtime.confinement()).in_words()
        await runtime.create(of("ada", "k", FORKS, processes_max=40))
        await ended(runtime, "k")
        assert 0 < int(await output(runtime, "k")) < 40
