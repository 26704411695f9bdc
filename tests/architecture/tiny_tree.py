"""Small trees to test the rules on, and the project's tools run over them."""

import json
import os
import subprocess
import sysconfig
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PYPROJECT = REPOSITORY / "pyproject.toml"

_SCRIPTS = Path(sysconfig.get_path("scripts"))


@dataclass(frozen=True)
class Outcome:
    """The exit code and output of a tool."""

    exit_code: int
    output: str


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write `files` under `root`, folders included."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return root


def write_package(root: Path, files: Mapping[str, str]) -> Path:
    """Write modules under `root`/src and an empty `__init__` in each of their folders.

    A contract that names a package by its plain name fails where the package is
    missing, so those are there too, empty.
    """
    folders = {parent for path in files for parent in Path("src", path).parents if "sokovan" in parent.parts}
    named = {Path("src", *name.split(".")) for name in _plain_names()}
    folders |= named | {parent for folder in named for parent in folder.parents if "sokovan" in parent.parts}
    inits = {str(folder / "__init__.py"): "" for folder in folders}
    return write_tree(root, inits | {f"src/{path}": text for path, text in files.items()})


def _plain_names() -> set[str]:
    contracts = tool_settings("importlinter")["contracts"]
    listed = [contract.get(key, []) for contract in contracts for key in ("source_modules", "forbidden_modules")]
    return {name for names in listed for name in names if name.startswith("sokovan.") and "*" not in name}


def tool_settings(tool: str) -> dict[str, Any]:
    """The section of one tool in the project's own pyproject.toml."""
    settings: dict[str, Any] = tomllib.loads(PYPROJECT.read_text("utf-8"))["tool"][tool]
    return settings


def lint_imports(root: Path, *contract_ids: str) -> Outcome:
    """Run import-linter with the project's contracts over the package in `root`/src."""
    chosen = [argument for contract_id in contract_ids for argument in ("--contract", contract_id)]
    return run_tool(root, "lint-imports", "--no-logo", "--no-cache", *chosen)


def ruff_codes(root: Path) -> dict[str, set[str]]:
    """Run ruff with the project's settings over `root`; the codes found in each file."""
    outcome = run_tool(root, "ruff", "check", "--no-cache", "--output-format", "json", ".")
    codes = defaultdict[str, set[str]](set)
    for found in json.loads(outcome.output):
        codes[Path(found["filename"]).relative_to(root.resolve()).as_posix()].add(found["code"])
    return codes


def run_tool(root: Path, tool: str, *arguments: str) -> Outcome:
    """Run one of the project's tools in `root`, under a copy of the project's settings."""
    (root / PYPROJECT.name).write_bytes(PYPROJECT.read_bytes())
    # Wide, so that no line that a test searches for is wrapped.
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "400", "NO_COLOR": "1"}
    done = subprocess.run(
        [_SCRIPTS / tool, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    return Outcome(done.returncode, done.stdout)
