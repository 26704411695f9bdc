"""Banned calls are rejected by ruff, and allowed in adapters where needed."""

from dataclasses import dataclass

import pytest

from tests.architecture.tiny_tree import ruff_codes, tool_settings, write_tree

BANNED: dict[str, dict[str, str]] = tool_settings("ruff")["lint"]["flake8-tidy-imports"]["banned-api"]

CORE, ORCHESTRATOR, ADAPTERS = "src/sokovan/domain", "src/sokovan/orchestrator", "src/sokovan/adapters/local"
OUTPUT, OTHER_CLI, TESTS = "src/sokovan/cli/output.py", "src/sokovan/cli/main.py", "tests/unit/test_thing.py"


@dataclass(frozen=True)
class Unsafe:
    """A banned call, and the code of its ruff rule."""

    name: str
    code: str
    text: str


UNSAFE = (
    Unsafe("pickle_import", "S403", "import pickle"),
    Unsafe("pickle_from_import", "S403", "from pickle import loads"),
    Unsafe("pickle_call", "S301", "import pickle\n\npickle.loads(b'')"),
    Unsafe("pickle_dump", "S403", "import pickle\n\npickle.dumps(1)"),
    Unsafe("dill", "S403", "import dill"),
    Unsafe("shelve", "S403", "import shelve"),
    Unsafe("marshal", "S302", "import marshal\n\nmarshal.loads(b'')"),
    Unsafe("eval", "S307", "eval('1')"),
    Unsafe("exec", "S102", "exec('1')"),
    Unsafe("yaml_load", "S506", "import yaml\n\nyaml.load('', Loader=yaml.Loader)"),
    Unsafe("shell_run", "S602", "import subprocess\n\nsubprocess.run('ls', shell=True, check=True)"),
    Unsafe("shell_popen", "S602", "import subprocess\n\nsubprocess.Popen('ls', shell=True)"),
    Unsafe("shell_output", "S605", "import subprocess\n\nsubprocess.getoutput('ls')"),
    Unsafe("os_system", "S605", "import os\n\nos.system('ls')"),
    Unsafe("os_system_from_import", "S605", "from os import system\n\nsystem('ls')"),
    Unsafe("os_popen", "S605", "import os\n\nos.popen('ls')"),
)

# Clock, randomness and ids as adapters use them.
OUTSIDE_WORLD = '''"""The outside world."""

import asyncio
import os
import secrets
import time
import uuid
from datetime import UTC, datetime
from random import SystemRandom


async def everything() -> tuple[object, ...]:
    """All of it."""
    await asyncio.sleep(1)
    clock = (datetime.now(tz=UTC), time.time(), time.time_ns(), time.monotonic(), time.perf_counter())
    chance = (secrets.token_hex(8), os.urandom(8), SystemRandom().random())
    return (*clock, *chance, uuid.uuid4())
'''


def banned_uses(purpose: str = "") -> dict[str, str]:
    """A file name and a text for each banned name: used by its full name, and imported."""
    uses = {}
    for name in (name for name, ban in BANNED.items() if purpose in ban["msg"]):
        module, _, last = name.rpartition(".")
        file_name = name.replace(".", "_")
        uses[f"{file_name}.py"] = f"import {name.partition('.')[0]}\n\nvalue = {name}\n"
        if module and "." not in module:
            uses[f"{file_name}_renamed.py"] = f"from {module} import {last} as harmless\n\nvalue = harmless\n"
    return uses


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The codes that ruff finds in each file of a tree with every banned call in every place."""
    folders = (CORE, ORCHESTRATOR, ADAPTERS)
    files = {f"{folder}/{name}": text for folder in folders for name, text in banned_uses().items()}
    files |= {f"{folder}/unsafe_{each.name}.py": f"{each.text}\n" for folder in folders for each in UNSAFE}
    files |= dict.fromkeys((OUTPUT, OTHER_CLI, TESTS, f"{CORE}/printing.py", f"{ADAPTERS}/printing.py"), "print(1)\n")
    files |= {f"{folder}/outside_world.py": OUTSIDE_WORLD for folder in folders}
    return ruff_codes(write_tree(tmp_path_factory.mktemp("banned"), files))


@pytest.mark.parametrize("file_name", banned_uses())
@pytest.mark.parametrize("folder", [CORE, ORCHESTRATOR])
def test_a_banned_name_is_refused(codes: dict[str, set[str]], folder: str, file_name: str) -> None:
    assert "TID251" in codes[f"{folder}/{file_name}"]


@pytest.mark.parametrize("file_name", banned_uses("ports.environment"))
def test_an_adapter_may_use_clock_randomness_ids_and_sleep(codes: dict[str, set[str]], file_name: str) -> None:
    assert "TID251" not in codes[f"{ADAPTERS}/{file_name}"]


def test_an_adapter_that_reads_the_outside_world_well_passes_every_rule(codes: dict[str, set[str]]) -> None:
    assert f"{ADAPTERS}/outside_world.py" not in codes
    assert codes[f"{CORE}/outside_world.py"] == {"TID251"}


@pytest.mark.parametrize("unsafe", UNSAFE, ids=lambda unsafe: unsafe.name)
@pytest.mark.parametrize("folder", [CORE, ORCHESTRATOR, ADAPTERS])
def test_an_unsafe_call_is_refused_everywhere(codes: dict[str, set[str]], folder: str, unsafe: Unsafe) -> None:
    assert unsafe.code in codes[f"{folder}/unsafe_{unsafe.name}.py"]


@pytest.mark.parametrize("path", [f"{CORE}/printing.py", f"{ADAPTERS}/printing.py", OTHER_CLI, TESTS])
def test_print_is_refused(codes: dict[str, set[str]], path: str) -> None:
    assert "T201" in codes[path]


def test_print_is_allowed_where_the_command_line_writes_its_output(codes: dict[str, set[str]]) -> None:
    assert "T201" not in codes[OUTPUT]


def test_no_file_is_exempt_from_the_rules_against_unsafe_calls() -> None:
    exempt = tool_settings("ruff")["lint"]["per-file-ignores"]
    unsafe = {each.code for each in UNSAFE}
    assert not {path: codes for path, codes in exempt.items() if unsafe & set(codes) or "S" in codes}
