"""Generates the sync client of the SDK from the async one: `python -m tools.sync_sdk [--check]`.

`sdk/aio` is written by hand, `sdk/sync` is derived from it by the replacements below.
A line that cannot be derived has its sync form in a comment:

    return self.view  # sync: return self.refresh()
    # sync: @property
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "src/sokovan/sdk/aio"
TARGET = "src/sokovan/sdk/sync"
HEADER = "# Generated from sdk/aio/{name} by `make docs`; do not edit.\n"

# Applied in this order to code, docstrings and comments alike.
REPLACEMENTS = (
    (r"^( *)(?:\S.*)?# sync: (.*)$", r"\1\2"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\ba(close|closing|read|iter_text)\b", r"\1"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\basync_sleep\b", "sleep"),
    (r"\bsokovan\.sdk\.(http\.)?aio\b", r"sokovan.sdk.\1sync"),
    (r"\bwebsockets\.asyncio\b", "websockets.sync"),
    (r"\basync client\b", "sync client"),
    (r"\btask(s?)\b", r"thread\1"),
)
# `async with` may not share a statement with `with`, and an async generator has no `yield from`; the sync one does.
_FIXES = ("I", "SIM117", "UP028")


def main() -> int:
    """Write the modules, or with --check only name those that drifted (exit status 1)."""
    parser = argparse.ArgumentParser(prog="python -m tools.sync_sdk", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a module is out of date")
    check = parser.parse_args().check
    changed = drifted(ROOT)
    for path in changed:
        if not check:
            (ROOT / path).write_text(generated()[path], encoding="utf-8")
        print(f"{path}: out of date, run `make docs`" if check else f"wrote {path}")
    return 1 if check and changed else 0


def drifted(root: Path) -> list[str]:
    """The modules under `root` whose text differs from the generated one."""
    return [path for path, text in generated().items() if not _has_text(root / path, text)]


@cache
def generated() -> dict[str, str]:
    """Text of every module of the sync client, by its path."""
    modules = sorted(path for path in (ROOT / SOURCE).glob("*.py") if path.stem != "__init__")
    return {f"{TARGET}/{path.name}": _module(path) for path in modules}


def _has_text(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def derive(source: str, *, name: str) -> str:
    """Rewrite a module of the async client; `name` is that of the file, for ruff."""
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    fixes = ("check", "--fix-only", "--unsafe-fixes", "--select", ",".join(_FIXES))
    return _ruff("format", name=name, text=_ruff(*fixes, name=name, text=source))


def _module(path: Path) -> str:
    derived = derive(path.read_text(encoding="utf-8"), name=f"{TARGET}/{path.name}")
    return HEADER.format(name=path.name) + derived


def _ruff(*command: str, name: str, text: str) -> str:
    run = [sys.executable, "-m", "ruff", *command, "--quiet", "--no-cache", "--stdin-filename", name, "-"]
    return subprocess.run(run, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
