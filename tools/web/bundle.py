"""The steps of the build: packages, types, bundle, names by content, compressed twins, manifest.

The manifest also says what the application and each page read at once.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.web.node import npm_script, run

STATIC = Path("src/sokovan/dashboard/static")
# The name in the page, the source, and the kind of the built file.
ENTRIES = {
    "app": "src/app.tsx",
    "worker": "src/live/worker.ts",
    "screen": "src/terminal/screen.ts",
    "style": "src/styles.css",
}
# The entry whose dynamic imports are files of their own.
SPLIT = "app"
SCRIPTS = ("--format=esm", "--target=es2022", "--jsx=automatic", "--jsx-import-source=preact")
STATIC_IMPORT = "import-statement"
INSTALLED = "node_modules/.package-lock.json"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Built files: entries and parts by their names, and what is read with the application and each page."""

    entries: Mapping[str, bytes]
    parts: Mapping[str, bytes] = field(default_factory=dict)
    loads: Mapping[str, Sequence[str]] = field(default_factory=dict)


def install_packages(node: Path, web: Path) -> None:
    """Install the packages of the lock, unless they are there."""
    installed = web / INSTALLED
    if installed.is_file() and installed.stat().st_mtime >= (web / "package-lock.json").stat().st_mtime:
        return
    run([node, npm_script(node), "ci", "--no-progress", "--loglevel=error"], cwd=web)


def check_types(node: Path, web: Path) -> None:
    """Check the types of the sources."""
    run([node, web / "node_modules/typescript/bin/tsc", "--project", "tsconfig.json"], cwd=web)


def bundle(node: Path, web: Path, built: Path) -> Bundle:
    """Bundle every entry; the pages of the application become files of their own."""
    contents = {}
    for name, source in ENTRIES.items():
        suffix = ".css" if source.endswith(".css") else ".js"
        scripts = () if suffix == ".css" else SCRIPTS
        if name != SPLIT:
            _esbuild(node, web, source, *scripts, f"--outfile={built / name}{suffix}")
            contents[f"{name}{suffix}"] = (built / f"{name}{suffix}").read_bytes()
    graph = built / "graph.json"
    split = ["--splitting", f"--outdir={built / SPLIT}", "--chunk-names=[name]-[hash]", f"--metafile={graph}"]
    _esbuild(node, web, ENTRIES[SPLIT], *SCRIPTS, *split)
    files = {path.name: path.read_bytes() for path in sorted((built / SPLIT).iterdir())}
    contents[f"{SPLIT}.js"] = files.pop(f"{SPLIT}.js")
    return Bundle(contents, files, read_loads(json.loads(graph.read_text(encoding="utf-8"))["outputs"]))


def read_loads(outputs: Mapping[str, Any]) -> dict[str, list[str]]:
    """The parts that the application and each page import at once, by the name of their source."""
    loads = {}
    for path, output in outputs.items():
        if entry := output.get("entryPoint"):
            found: dict[str, None] = {}
            waiting = [path]
            while waiting:
                at = waiting.pop()
                found[at] = None
                imports = outputs[at]["imports"]
                waiting += [one["path"] for one in imports if one["kind"] == STATIC_IMPORT and one["path"] not in found]
            loads[Path(entry).stem] = sorted(Path(one).name for one in found if Path(one).name != f"{SPLIT}.js")
    return loads


def write_files(web: Path, built: Bundle, static: Path) -> list[str]:
    """Write the files under names with their digests, the page, and the manifest; the names."""
    shutil.rmtree(static, ignore_errors=True)
    page = (web / "index.html").read_text(encoding="utf-8")
    # esbuild has put digests into the names of the parts, since they import each other.
    files = {f"assets/{name}": content for name, content in built.parts.items()}
    for name, content in {**built.entries, "icon.svg": (web / "icon.svg").read_bytes()}.items():
        stem, _, suffix = name.rpartition(".")
        named = f"assets/{stem}-{hashlib.sha256(content).hexdigest()[:12]}.{suffix}"
        files[named] = content
        page = page.replace("{{" + stem + "}}", named)
    preloads = [f'<link rel="modulepreload" href="/ui/assets/{name}" />' for name in built.loads.get(SPLIT, [])]
    files["index.html"] = page.replace("{{preloads}}", "\n    ".join(preloads)).encode()
    for name, content in files.items():
        path = static / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
    loads = {name: [f"assets/{one}" for one in parts] for name, parts in sorted(built.loads.items())}
    manifest = {"files": sorted(files), "loads": loads}
    # Last: its presence says that everything else is there.
    (static / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return sorted(files)


def _esbuild(node: Path, web: Path, source: str, *options: str) -> None:
    run([node, web / "node_modules/esbuild/bin/esbuild", source, "--bundle", "--minify", *options], cwd=web)
