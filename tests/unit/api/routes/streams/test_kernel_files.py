"""Files of kernels over HTTP: of running and ended sessions, and of their owner only."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.owners.outputs import CopyLimits
from sokovan.testing.stored_cluster import BY_AGENT
from tests.unit.adapters.process.files.kernels import Machine
from tests.unit.api.api_harness import ApiHarness, api_harness, member
from tests.unit.api.machine_files import MachineFiles

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
BINARY = {"Content-Type": "application/octet-stream"}


async def kernel_of(api: ApiHarness, session: str) -> Path:
    """The work folder of a session's kernel, with a file in it and in its output."""
    assert isinstance(api.dependencies.files, MachineFiles)
    machine = Machine(api.dependencies.files.root)
    [kernel] = (await api.cluster.session(session)).kernels
    work = machine.kernel(kernel.kernel_id)
    (work / "x").write_bytes(b"work")
    machine.wrote(kernel.kernel_id, {"model": 3})
    return work


async def uploaded(api: ApiHarness, content: bytes, user: str) -> str:
    digest = hashlib.sha256(content).hexdigest()
    text = json.dumps({"files": [{"path": "new", "digest": digest, "size": len(content)}]}).encode()
    upload = hashlib.sha256(text).hexdigest()
    for name, body in ((digest, content), (upload, text)):
        path = f"/uploads/blobs/{name}?size={len(body)}"
        await api.call("PUT", path, content=body, headers=BINARY, user=user)
    assert (await api.call("PUT", f"/uploads/{upload}", user=user)).json()["missing"] == []
    return upload


async def files(api: ApiHarness, session: str, below: str, *, user: str = NORTH, **query: Any) -> Any:
    return await api.get(f"/sessions/{session}/kernels/0/files{below}", params=query, user=user)


@pytest.mark.slow
async def test_files_of_a_running_kernel_are_listed_and_read(api: ApiHarness) -> None:
    await api.run("reading", NORTH)
    await kernel_of(api, "reading")
    kept = (await files(api, "reading", "")).json()
    assert [(one["path"], one["size"]) for one in kept["items"]] == [("output/model", 3)]
    assert kept["output"]["owner_bytes_max"] == 2000
    here = (await files(api, "reading", "", path=".")).json()
    assert [one["path"] for one in here["items"]] == ["./x"]
    part = (await files(api, "reading", "/content", path="x", offset=1)).json()
    assert (base64.b64decode(part["data"]), part["size"]) == (b"ork", 4)


@pytest.mark.slow
async def test_refusals_have_their_status_and_code(api: ApiHarness) -> None:
    await api.run("refusing", NORTH)
    await kernel_of(api, "refusing")
    for path, status, code in (
        ("../x", 409, "file-refused"),
        ("/etc/passwd", 409, "file-refused"),
        ("nothing", 404, "file-not-found"),
    ):
        answer = await files(api, "refusing", "/content", path=path)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "folder" in (await files(api, "refusing", "/content")).json()["detail"]
    assert (await files(api, "refusing", "/content", path="x", offset=-1)).status_code == 422
    assert (await api.get("/sessions/refusing/kernels/7/files", user=NORTH)).status_code == 404


@pytest.mark.slow
async def test_an_upload_of_the_caller_is_copied_and_audited(api: ApiHarness) -> None:
    await api.run("taking", NORTH)
    work = await kernel_of(api, "taking")
    upload, path = await uploaded(api, b"data", NORTH), "/sessions/taking/kernels/0/files"
    done = await api.call("POST", path, json={"upload": upload, "path": "sub/name"}, user=NORTH)
    assert done.json() == {"done": True, "path": str(work / "sub" / "name")}
    assert (work / "sub" / "name").read_bytes() == b"data"
    assert any(action == "session.copy" for _, action, _, _ in await api.audited())
    unknown = await api.call("POST", path, json={"upload": "0" * 64}, user=NORTH)
    assert unknown.status_code == 404
    for body in ({"upload": "../x"}, {"upload": upload, "other": 1}):
        assert (await api.call("POST", path, json=body, user=NORTH)).status_code == 422


@pytest.mark.slow
async def test_another_tenant_does_not_find_the_session(api: ApiHarness) -> None:
    await api.run("private", NORTH)
    await kernel_of(api, "private")
    upload = await uploaded(api, b"data", SOUTH)
    for answer in (
        await files(api, "private", "", user=SOUTH),
        await files(api, "private", "/content", path="x", user=SOUTH),
        await api.call("POST", "/sessions/private/kernels/0/files", json={"upload": upload}, user=SOUTH),
    ):
        assert answer.status_code == 404


async def test_of_an_ended_session_only_the_output_is_read(api: ApiHarness) -> None:
    await api.run("ended", NORTH)
    await kernel_of(api, "ended")
    await api.cluster.move("ended", KernelTrigger.EXITED, BY_AGENT, exit_code=0)
    await api.cluster.free("ended", FreeProof.AGENT_TOMBSTONE)
    assert [one["path"] for one in (await files(api, "ended", "")).json()["items"]] == ["output/model"]
    other = await files(api, "ended", "/content", path="x")
    assert other.status_code == 409
    assert "only its output is kept" in other.json()["detail"]
    into = await api.call(
        "POST", "/sessions/ended/kernels/0/files", json={"upload": await uploaded(api, b"d", NORTH)}, user=NORTH
    )
    assert into.status_code == 409


async def test_a_session_that_waits_has_no_files(api: ApiHarness) -> None:
    await api.submit("waiting", NORTH)
    answer = await files(api, "waiting", "")
    assert answer.status_code == 409
    assert "no files" in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="function")
async def test_copies_are_limited_by_files_and_bytes() -> None:
    async with api_harness(copies=CopyLimits(files_max=1, bytes_max=3)) as api:
        await api.run("limited", NORTH)
        work = await kernel_of(api, "limited")
        (work / "y").touch()
        many = await files(api, "limited", "", path=".")
        assert (many.status_code, many.json()["code"]) == (409, "file-refused")
        large = await files(api, "limited", "/content", path="x")
        assert large.status_code == 409
        assert "limit of a copy" in large.json()["detail"]
