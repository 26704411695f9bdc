"""Small built files, as the build leaves them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

SCRIPT = "assets/app-0123ABCD.js"


def build(folder: Path) -> Path:
    """A folder with a page and its script."""
    contents = {"index.html": b"<!doctype html><title>Sokovan</title>", SCRIPT: b"void 0;"}
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, mtime=0))
    (folder / "manifest.json").write_text(json.dumps({"files": sorted(contents)}))
    (folder / "secret.txt").write_text("not in the manifest")
    return folder
