"""The files of the dashboard over HTTP."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from sokovan.dashboard.assets import Assets
from sokovan.dashboard.headers import IMMUTABLE, page_headers
from sokovan.dashboard.pages import DashboardPages
from tests.unit.dashboard.built_files import SCRIPT, build


async def get(folder: Path, path: str, *, encoding: str = "identity") -> httpx2.Response:
    app = Starlette(routes=DashboardPages(Assets(folder)).routes())
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7646") as client:
        return await client.get(path, headers={"accept-encoding": encoding})


@pytest.mark.parametrize("path", ["/ui/", "/ui/sessions", "/ui/sessions/s-1?tab=log", "/ui/a/b/c"])
async def test_every_address_is_the_same_page_which_reads_it_itself(tmp_path: Path, path: str) -> None:
    answer = await get(build(tmp_path), path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Sokovan" in answer.text
    assert {name: answer.headers[name] for name in page_headers()} == page_headers()


@pytest.mark.parametrize(("encoding", "sent"), [("gzip, br", "gzip"), ("identity", None)])
async def test_a_file_is_sent_as_it_was_compressed_by_the_build(
    tmp_path: Path, encoding: str, sent: str | None
) -> None:
    answer = await get(build(tmp_path), f"/ui/{SCRIPT}", encoding=encoding)
    assert (answer.text, answer.headers.get("content-encoding")) == ("void 0;", sent)
    assert (answer.headers["cache-control"], answer.headers["vary"]) == (IMMUTABLE, "Accept-Encoding")


@pytest.mark.parametrize("path", ["/ui/assets/none.js", "/ui/assets/../secret.txt", "/ui/assets/%2e%2e/secret.txt"])
async def test_a_file_that_is_not_of_the_build_is_not_found(tmp_path: Path, path: str) -> None:
    answer = await get(build(tmp_path), path)
    assert "not in the manifest" not in answer.text


async def test_the_short_address_leads_to_the_page(tmp_path: Path) -> None:
    answer = await get(build(tmp_path), "/ui")
    assert (answer.status_code, answer.headers["location"]) == (307, "/ui/")


async def test_without_built_files_the_page_says_how_to_build_them(tmp_path: Path) -> None:
    answer = await get(tmp_path, "/ui/")
    assert answer.status_code == 404
    assert "make web" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
