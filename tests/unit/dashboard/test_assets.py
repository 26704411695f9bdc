"""The built files of the dashboard."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from sokovan.dashboard.assets import Assets
from tests.unit.dashboard.built_files import SCRIPT, build


def test_a_file_is_found_with_its_kind_and_its_compressed_twin(tmp_path: Path) -> None:
    script = Assets(build(tmp_path)).find(SCRIPT)
    assert script is not None
    assert (script.content, script.media, script.immutable) == (b"void 0;", "text/javascript; charset=utf-8", True)
    assert gzip.decompress(script.packed) == script.content


def test_the_page_may_change_under_its_name(tmp_path: Path) -> None:
    page = Assets(build(tmp_path)).find("index.html")
    assert page is not None
    assert (page.media, page.immutable) == ("text/html; charset=utf-8", False)


@pytest.mark.parametrize("name", ["secret.txt", "../secret.txt", "manifest.json", "/etc/passwd", "", "assets"])
def test_nothing_but_the_files_of_the_manifest_is_read(tmp_path: Path, name: str) -> None:
    assert Assets(build(tmp_path)).find(name) is None


def test_files_that_are_built_again_are_served_without_a_restart(tmp_path: Path) -> None:
    assets = Assets(tmp_path)
    assert assets.find("index.html") is None
    build(tmp_path)
    assert assets.is_built
    before = assets.find("index.html")
    assert before is not None
    (tmp_path / "index.html").write_bytes(b"new")
    manifest = tmp_path / "manifest.json"
    # While a build writes, what was read is served; its manifest comes last.
    manifest.rename(tmp_path / "away")
    assert assets.is_built
    assert assets.find("index.html") == before
    (tmp_path / SCRIPT).unlink()
    assert assets.find(SCRIPT) is None
    (tmp_path / "away").rename(manifest)
    os.utime(manifest, ns=(10**18, 10**18))
    assert assets.is_built
    after = assets.find("index.html")
    assert after is not None
    assert after.content == b"new"


@pytest.mark.parametrize("manifest", [None, "", "{"])
def test_a_folder_that_was_not_built_has_no_files(tmp_path: Path, manifest: str | None) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    assert not Assets(tmp_path).is_built
    assert Assets(tmp_path).find("index.html") is None
