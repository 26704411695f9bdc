"""Folders and file names."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from tools.tidy.finding import Spot
from tools.tidy.tree import PACKAGE, TESTS, TOOLS, Tree

DEPTH = 4
FOLDER_FILES = 3
FOLDER_MODULES = 14
PLUGIN_FOLDERS = (
    *(PACKAGE / "scheduling" / kind for kind in ("validators", "sequencers", "selectors")),
    PACKAGE / "orchestrator" / "deployments" / "generators",
)
FORBIDDEN_NAMES = frozenset({"utils", "helpers", "common", "misc", "types", "manager", "data", "impl"})

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*|__init__|__main__")
_UNIT_TESTS = TESTS / "unit"
_PORTS = PACKAGE / "ports"
_CONTRACTS = PACKAGE / "testing" / "contracts"
_CONTRACT_TESTS = TESTS / "contract"


def bad_names(tree: Tree) -> Iterator[Spot]:
    """Modules and packages with a name that says nothing or is not in snake case."""
    paths = {file.path for file in tree.within(PurePosixPath("src"), TESTS, TOOLS)}
    # The first folder is src, tests or tools itself.
    packages = {parent for path in paths for parent in path.parents if len(parent.parts) > 1}
    for path in sorted(paths | packages):
        message = _name_complaint(path)
        if message:
            yield Spot(str(path), 1, message)


def _name_complaint(path: PurePosixPath) -> str:
    name = path.stem
    if name in FORBIDDEN_NAMES:
        return f"{name!r} says nothing about what is inside"
    if name == "base" and path.parent not in PLUGIN_FOLDERS:
        return "'base' belongs in a plugin folder only"
    return "" if _SNAKE_CASE.fullmatch(name) else f"{name!r} is not lower snake case"


def deep_folders(tree: Tree) -> Iterator[Spot]:
    """Packages nested deeper than the limit."""
    for folder in _packages(tree):
        depth = len(folder.relative_to(PACKAGE).parts)
        if depth > DEPTH:
            yield Spot(str(folder), 1, f"{depth} folders deep, the limit is {DEPTH}")


def thin_folders(tree: Tree) -> Iterator[Spot]:
    """Packages with too few modules, those of subpackages included."""
    modules = [file for file in tree.within(PACKAGE) if file.stem != "__init__"]
    for folder in _packages(tree):
        count = sum(module.inside(folder) for module in modules)
        if count < FOLDER_FILES:
            yield Spot(str(folder), 1, f"modules in this folder: {count}, the least is {FOLDER_FILES}")


def wide_folders(tree: Tree) -> Iterator[Spot]:
    """Packages with more modules side by side than the limit; those of subpackages do not count."""
    counts = Counter(file.path.parent for file in tree.within(PACKAGE) if not file.stem.startswith("__"))
    for folder in _packages(tree):
        count = counts[folder]
        if count > FOLDER_MODULES:
            yield Spot(str(folder), 1, f"{count} modules side by side, the limit is {FOLDER_MODULES}")


def _packages(tree: Tree) -> list[PurePosixPath]:
    parents = {parent for file in tree.within(PACKAGE) for parent in file.path.parents}
    return sorted(parent for parent in parents if PACKAGE in parent.parents)


def unmirrored(tree: Tree) -> Iterator[Spot]:
    """Modules without their test, and unit tests without their module.

    A port is tested by its contract suite, and a contract suite by running it on real servers.
    """
    modules = {file.path for file in tree.within(PACKAGE) if file.stem not in {"__init__", "__main__"}}
    tests = {file.path for file in tree.within(_UNIT_TESTS) if file.stem.startswith("test_")}
    contract_tests = {file.path for file in tree.within(_CONTRACT_TESTS)}
    test_of = {module: _test_of(module) for module in modules}
    for module in sorted(modules):
        if test_of[module] not in tests | contract_tests | modules:
            yield Spot(str(module), 1, f"its test is missing: {test_of[module]}")
    for test in sorted(tests - set(test_of.values())):
        yield Spot(str(test), 1, f"its module is missing: {_module_of(test)}")


def _test_of(module: PurePosixPath) -> PurePosixPath:
    if _PORTS in module.parents:
        return _CONTRACTS / module.relative_to(_PORTS)
    if _CONTRACTS in module.parents:
        return _CONTRACT_TESTS / f"test_{module.name}"
    return _UNIT_TESTS / module.relative_to(PACKAGE).with_name(f"test_{module.name}")


def _module_of(test: PurePosixPath) -> PurePosixPath:
    return PACKAGE / test.relative_to(_UNIT_TESTS).with_name(test.name.removeprefix("test_"))
