"""The steps of the build: packages, types, bundle, names by content, compressed twins, manifest."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path

from tools.web.node import npm_script, run

STATIC = Path("src/sokovan/dashboard/static")
# The name in the page, the source, and the kind of the built file.
ENTRIES = {
    "app": "src/app.tsx",
    "worker": "src/live/worker.ts",
    "screen": "src/terminal/screen.ts",
    "style": "src/styles.css",
}
INSTALLED = "node_modules/.package-lock.json"


def install_packages(node: Path, web: Path) -> None:
    """Install the packages of the lock, unless they are there."""
    installed = web / INSTALLED
    if installed.is_file() and installed.stat().st_mtime >= (web / "package-lock.json").stat().st_mtime:
        return
    run([node, npm_script(node), "ci", "--no-progress", "--loglevel=error"], cwd=web)


def check_types(node: Path, web: Path) -> None:
    """Check the types of the sources."""
    run([node, web / "node_modules/typescript/bin/tsc", "--project", "tsconfig.json"], cwd=web)


def bundle(node: Path, web: Path, built: Path) -> dict[str, bytes]:
    """Bundle every entry; the contents by entry."""
    script = web / "node_modules/esbuild/bin/esbuild"
    contents = {}
    for name, source in ENTRIES.items():
        suffix = ".css" if source.endswith(".css") else ".js"
        out = built / f"{name}{suffix}"
        options = [
            "--bundle",
            "--minify",
            "--format=esm",
            "--target=es2022",
            "--jsx=automatic",
            "--jsx-import-source=preact",
        ]
        run(
            [node, script, source, *(options if suffix == ".js" else ["--bundle", "--minify"]), f"--outfile={out}"],
            cwd=web,
        )
        contents[f"{name}{suffix}"] = out.read_bytes()
    return contents


def write_files(web: Path, contents: dict[str, bytes], static: Path) -> list[str]:
    """Write the files under names with their digests, the page, and the manifest; the names."""
    shutil.rmtree(static, ignore_errors=True)
    page = (web / "index.html").read_text(encoding="utf-8")
    files: dict[str, bytes] = {}
    for name, content in {**contents, "icon.svg": (web / "icon.svg").read_bytes()}.items():
        stem, _, suffix = name.rpartition(".")
        named = f"assets/{stem}-{hashlib.sha256(content).hexdigest()[:12]}.{suffix}"
        files[named] = content
        page = page.replace("{{" + stem + "}}", named)
    files["index.html"] = page.encode()
    for name, content in files.items():
        path = static / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
    # Last: its presence says that everything else is there.
    (static / "manifest.json").write_text(json.dumps({"files": sorted(files)}, indent=1) + "\n", encoding="utf-8")
    return sorted(files)
