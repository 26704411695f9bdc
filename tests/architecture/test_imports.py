"""Every import contract of pyproject.toml rejects a violation."""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tiny_tree import REPOSITORY, lint_imports, tool_settings, write_package

CONTRACTS: list[dict[str, Any]] = tool_settings("importlinter")["contracts"]
NAMES: dict[str, str] = {contract["id"]: contract["name"] for contract in CONTRACTS}
FORBIDDING = [contract for contract in CONTRACTS if contract["type"] == "forbidden"]

# contract id: modules of a small package that violates this contract, perhaps others too
VIOLATIONS: dict[str, dict[str, str]] = {
    "layers": {
        "sokovan/domain/slots.py": "import sokovan.ports.storage",
        "sokovan/ports/storage.py": "",
    },
    "pure-half": {
        "sokovan/domain/slots.py": "import time",
    },
    "domain-standard-library": {
        "sokovan/domain/slots.py": "import numpy",
    },
    "scheduling-numpy-only": {
        "sokovan/domain/slots.py": "",
        "sokovan/scheduling/plan.py": "import pydantic",
    },
    "adapters-only-by-roots": {
        "sokovan/domain/slots.py": "",
        "sokovan/adapters/sql/store.py": "",
        "sokovan/api/application.py": "import sokovan.adapters.sql.store",
    },
    "adapters-independent": {
        "sokovan/domain/slots.py": "",
        "sokovan/adapters/sql/store.py": "import sokovan.adapters.local.clock",
        "sokovan/adapters/local/clock.py": "",
    },
    "data-plane": {
        "sokovan/domain/slots.py": "",
        "sokovan/scheduling/plan.py": "",
        "sokovan/agent/supervisor.py": "import sokovan.scheduling.plan",
    },
    "clients-speak-wire": {
        "sokovan/domain/slots.py": "",
        "sokovan/sdk/sync/client.py": "import sokovan.domain.slots",
    },
    "no-cycles": {
        "sokovan/domain/slots.py": "import sokovan.domain.cluster.agent",
        "sokovan/domain/cluster/agent.py": "import sokovan.domain.slots",
    },
}

# The allowed direction of every contract above, and every wildcard with something to match.
CLEAN = {
    "sokovan/__main__.py": "import sokovan.cli.main",
    "sokovan/domain/slots.py": "import dataclasses",
    "sokovan/wire/frames.py": "import dataclasses",
    "sokovan/scheduling/plan.py": "import numpy\nimport sokovan.domain.slots",
    "sokovan/ports/storage.py": "import sokovan.scheduling.plan",
    "sokovan/adapters/sql/store.py": "import sokovan.ports.storage",
    "sokovan/adapters/local/clock.py": "import time\nimport sokovan.domain.slots",
    "sokovan/sdk/sync/client.py": "import sokovan.wire.frames",
    "sokovan/orchestrator/periodic_tasks.py": "import sokovan.ports.storage",
    "sokovan/agent/supervisor.py": "import sokovan.wire.frames\nimport sokovan.domain.slots",
    "sokovan/api/application.py": "import sokovan.orchestrator.periodic_tasks",
    "sokovan/dashboard/pages.py": "import sokovan.sdk.sync.client",
    "sokovan/entrypoints/server.py": "import sokovan.adapters.sql.store\nimport sokovan.api.application",
    "sokovan/cli/commands/session.py": "import sokovan.sdk.sync.client",
    "sokovan/cli/main.py": "import sokovan.cli.commands.session\nimport sokovan.entrypoints.server",
}


def test_every_contract_has_a_violation_in_the_table() -> None:
    assert set(VIOLATIONS) == set(NAMES)


@pytest.mark.parametrize("contract_id", VIOLATIONS)
def test_a_package_that_breaks_a_contract_is_refused(tmp_path: Path, contract_id: str) -> None:
    outcome = lint_imports(write_package(tmp_path, VIOLATIONS[contract_id]))
    assert outcome.exit_code == 1
    assert f"{NAMES[contract_id]} BROKEN" in outcome.output


def test_a_package_that_imports_only_downwards_keeps_every_contract(tmp_path: Path) -> None:
    outcome = lint_imports(write_package(tmp_path, CLEAN))
    assert outcome.exit_code == 0
    assert f"{len(CONTRACTS)} kept, 0 broken" in outcome.output


def test_a_contract_over_folders_that_are_not_there_yet_is_kept(tmp_path: Path) -> None:
    outcome = lint_imports(write_package(tmp_path, {"sokovan/domain/slots.py": ""}))
    assert outcome.exit_code == 0
    assert f"{len(CONTRACTS)} kept, 0 broken" in outcome.output


@pytest.mark.parametrize("newcomer", ["sokovan/extras/thing.py", "sokovan/thing.py"])
def test_a_top_folder_or_module_that_no_layer_lists_is_refused(tmp_path: Path, newcomer: str) -> None:
    outcome = lint_imports(write_package(tmp_path, {"sokovan/domain/slots.py": "", newcomer: ""}), "layers")
    assert outcome.exit_code == 1
    assert f"{NAMES['layers']} BROKEN" in outcome.output
    assert f"- {'.'.join(Path(newcomer).with_suffix('').parts[:2])}" in outcome.output


def layers() -> list[list[str]]:
    """The layers from the top down, each with the siblings that share it."""
    [contract] = [contract for contract in CONTRACTS if contract["id"] == "layers"]
    return [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]


def upward_and_sideways() -> list[tuple[str, str]]:
    """Every pair (importer, imported) that the layers do not allow."""
    ranks = {name: rank for rank, names in enumerate(layers()) for name in names}
    return [(low, high) for low, high in product(ranks, ranks) if low != high and ranks[low] >= ranks[high]]


def test_no_layer_imports_one_above_or_beside_it(tmp_path: Path) -> None:
    pairs = upward_and_sideways()
    targets = {f"sokovan/{name}/target.py": "" for names in layers() for name in names}
    imports = {f"sokovan/{low}/to_{high}.py": f"import sokovan.{high}.target" for low, high in pairs}
    outcome = lint_imports(write_package(tmp_path, targets | imports), "layers")
    wanted = {(f"sokovan.{low}.to_{high}", f"sokovan.{high}.target") for low, high in pairs}
    assert len(pairs) > 100
    assert refused(outcome.output) == wanted


@pytest.mark.parametrize("contract", FORBIDDING, ids=lambda contract: contract["id"])
def test_each_source_is_refused_each_forbidden_module(tmp_path: Path, contract: dict[str, Any]) -> None:
    sources, forbidden = packages(contract["source_modules"]), packages(contract["forbidden_modules"])
    targets = {f"{path(module)}/target.py": "" for module in ["sokovan.domain", *sources, *forbidden] if ours(module)}
    imports = {
        f"{path(source)}/to_{module.rpartition('.')[2]}.py": f"import {target(module)}"
        for source, module in product(sources, forbidden)
    }
    outcome = lint_imports(write_package(tmp_path, targets | imports), contract["id"])
    wanted = {
        (f"{source}.to_{module.rpartition('.')[2]}", target(module)) for source, module in product(sources, forbidden)
    }
    assert outcome.exit_code == 1
    assert refused(outcome.output) == wanted


PURE_FOLDERS = ("domain", "scheduling", "wire")
IMPURE_MODULES = (
    *("asyncio", "time", "random", "uuid", "logging", "os", "threading", "socket", "subprocess"),
    *("secrets", "multiprocessing", "concurrent", "io", "pathlib", "tempfile", "shutil", "signal"),
)


def test_the_pure_half_imports_no_clock_randomness_log_or_operating_system(tmp_path: Path) -> None:
    pairs = list(product(PURE_FOLDERS, IMPURE_MODULES))
    files = {f"sokovan/{folder}/deep/to_{module}.py": f"from {module} import x" for folder, module in pairs}
    outcome = lint_imports(write_package(tmp_path, files), "pure-half")
    assert refused(outcome.output) == {(f"sokovan.{folder}.deep.to_{module}", module) for folder, module in pairs}


@pytest.mark.parametrize(
    "text",
    [
        "import os.path",
        "def late():\n    import os",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os",
        "try:\n    import os\nexcept ImportError:\n    pass",
    ],
)
def test_an_import_is_found_wherever_it_hides(tmp_path: Path, text: str) -> None:
    outcome = lint_imports(write_package(tmp_path, {"sokovan/domain/slots.py": text}), "pure-half")
    assert refused(outcome.output) == {("sokovan.domain.slots", "os")}


def test_a_folder_in_the_tree_is_named_beside_its_wildcard() -> None:
    assert unnamed_packages(CONTRACTS, REPOSITORY / "src") == []


def test_a_wildcard_alone_leaves_the_package_itself_unwatched(tmp_path: Path) -> None:
    contract = {"id": "pure", "source_modules": ["sokovan.wire.**"], "forbidden_modules": ["os"]}
    write_package(tmp_path, {"sokovan/wire/frames.py": ""})
    assert unnamed_packages([contract], tmp_path / "src") == ["pure: source_modules lacks sokovan.wire"]
    contract["source_modules"] = ["sokovan.wire", "sokovan.wire.**", "sokovan.to_come.**"]
    assert unnamed_packages([contract], tmp_path / "src") == []


def unnamed_packages(contracts: Iterable[dict[str, Any]], src: Path) -> list[str]:
    """Packages that exist, but that a contract names by `package.**` only.

    The wildcard does not match the package's own `__init__`; the plain name does,
    but import-linter refuses it as long as the package is not there.
    """
    fields = ("source_modules", "forbidden_modules")
    return [
        f"{contract['id']}: {field} lacks {package}"
        for contract, field in product(contracts, fields)
        for package in packages(contract.get(field, ()))
        if (src / path(package)).is_dir() and package not in contract[field]
    ]


def packages(expressions: Sequence[str]) -> list[str]:
    """The packages or modules of `expressions`, without wildcards."""
    return list(dict.fromkeys(expression.removesuffix(".**") for expression in expressions))


def ours(module: str) -> bool:
    return module.startswith("sokovan.")


def path(module: str) -> str:
    return module.replace(".", "/")


def target(module: str) -> str:
    return f"{module}.target" if ours(module) else module


def refused(output: str) -> set[tuple[str, str]]:
    """The imports that import-linter reports as violations."""
    return set(re.findall(r"^\s*-\s+(\S+) -> (\S+) \(l\.", output, flags=re.MULTILINE))
