"""A small tree that violates no rule of tidy, and a table of violations of each rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DOMAIN, SCHEDULING = "src/sokovan/domain", "src/sokovan/scheduling"
ORCHESTRATOR = "src/sokovan/orchestrator"
SLOTS, PLAN = f"{DOMAIN}/slots.py", f"{SCHEDULING}/plan.py"
TOOL, TEST = "tools/tidy/rules.py", "tests/docs/test_links.py"
PROSE = "The purpose of the folder, its contents, what may import it, and what it never contains."
ARCHITECTURE = f"""# Architecture

## `domain/`

{PROSE}

**`scheduling/`** {PROSE}

**entrypoints/** {PROSE}

- `tests/`: {PROSE}

`tools/` {PROSE}

`docs/` {PROSE}
"""
GLOSSARY = """# Glossary

- **Session**, **agent**, **slot** (`domain.slots`): the terms that the modules below are named after.
- **domain**, **scheduling**, **entrypoint**, **wire**, **noun**, **a b c d x y z**: others.
- **HyperNode**, **plan**, **pipeline**, **snapshot**, **proxy**, **server**, **queue**, **my queue2 table**: others.
- **lifecycle**, **kernel**, **machine**, **validator**, **lease**, **storage**, **many**,
  **more**, **route**: others.

## Words in module names

- **entrypoints**: composition roots.

## Other vocabularies
"""


def mirrored(files: Mapping[str, str]) -> dict[str, str]:
    """The unit test file that the mirror rule requires for each module of the package."""
    modules = [Path(path).relative_to("src/sokovan") for path in files if path.startswith("src/sokovan/")]
    named = [module for module in modules if not module.name.startswith("__")]
    return {f"tests/unit/{module.parent}/test_{module.name}": "" for module in named}


def package(folder: str, *names: str) -> dict[str, str]:
    """Modules that violate no rule, and their tests."""
    files = {f"{folder}/{name}.py": '"""A noun."""\n' for name in ("__init__", *names)}
    return files | mirrored(files)


TIDY = {
    "ARCHITECTURE.md": ARCHITECTURE,
    "docs/glossary.md": GLOSSARY,
    "src/sokovan/__init__.py": "",
    **package(DOMAIN, "agent", "session", "slots"),
    **package(SCHEDULING, "pipeline", "plan", "snapshot"),
    **package("src/sokovan/entrypoints", "agent", "proxy", "server"),
    **dict.fromkeys([TOOL, TEST], ""),
}


def function(lines: int, docstring: str = "", indent: str = "") -> str:
    """A function with the given number of lines, docstring excluded."""
    body = [f'"""{docstring}"""'] * bool(docstring) + ["pass"] * (lines - 1)
    return f"{indent}def work() -> None:\n" + "".join(f"{indent}    {line}\n" for line in body)


def klass(methods: int, bases: str = "") -> str:
    """A class with the given number of public methods."""
    names = [f"verb_{index}" for index in range(methods)]
    return f"class Thing{bases}:\n" + "".join(f"    def {name}(self) -> None: ...\n" for name in names)


@dataclass(frozen=True)
class Case:
    """A violation of one rule, the expected finding, and the change that fixes it."""

    rule: str
    what: str
    violation: Mapping[str, str | None]
    message: str
    fixed: Mapping[str, str | None]


@dataclass(frozen=True)
class Edit:
    """One file, with the violation and without."""

    path: str
    violation: str
    fixed: str


def case(rule: str, what: str, edit: Edit, message: str) -> Case:
    """A case about the text of one file."""
    return Case(rule, what, {edit.path: edit.violation}, f"{edit.path}:{message}", {edit.path: edit.fixed})


IN_CLASS = "class Thing:\n"
SEVEN = "a: int, /, b: int, *c: int, d: int, e: int, f: int, **g: int"
LONG_DOC = "word " * 16 + "."
SIXTEEN_WORDS = "word " * 15 + "word."

SIZES = [
    case("function-length", "in src", Edit(SLOTS, function(61), function(60)), "1: function-length: work has 61 lines"),
    case("function-length", "in tools", Edit(TOOL, function(61), function(60)), "1: function-length: work has 61"),
    case("function-length", "in tests", Edit(TEST, function(61), function(60)), "1: function-length: work has 61"),
    case(
        "function-length",
        "not counting its docstring",
        Edit(SLOTS, function(61, docstring="One.\n\nTwo.\n"), function(60, docstring="One.\n\nTwo.\n")),
        "1: function-length: work has 61 lines, the limit is 60",
    ),
    case(
        "function-length",
        "of a method, named with its class",
        Edit(SLOTS, IN_CLASS + function(61, indent="    "), IN_CLASS + function(60, indent="    ")),
        "2: function-length: Thing.work has 61",
    ),
    case("module-length", "in src", Edit(SLOTS, "#\n" * 501, "#\n" * 500), "1: module-length: 501 lines"),
    case("module-length", "in tests", Edit(TEST, "#\n" * 501, "#\n" * 500), "1: module-length: 501 lines"),
    case("module-length", "in tools", Edit(TOOL, "#\n" * 501, "#\n" * 500), "1: module-length: 501 lines"),
    case("public-methods", "of a class", Edit(SLOTS, klass(13), klass(12)), "1: public-methods: Thing has 13"),
    case("public-methods", "in tools", Edit(TOOL, klass(13), klass(12)), "1: public-methods: Thing has 13"),
    case(
        "public-methods",
        "private ones not counted",
        Edit(SLOTS, klass(13), klass(12) + "    def _own(self) -> None: ...\n    def __len__(self) -> int: ...\n"),
        "1: public-methods: Thing has 13",
    ),
    *(
        case(
            "protocol-methods",
            f"of {bases}",
            Edit(SLOTS, klass(9, bases), klass(8, bases)),
            "1: protocol-methods: Thing",
        )
        for bases in ("(Protocol)", "(typing.Protocol[T])", "(Sized, Protocol)")
    ),
    case(
        "parameters",
        "of any kind",
        Edit(SLOTS, f"def work({SEVEN}) -> None: ...", f"def work({SEVEN.removesuffix(', **g: int')}) -> None: ..."),
        "1: parameters: work takes 7",
    ),
    case(
        "parameters",
        "self not counted",
        Edit(
            TOOL,
            f"{IN_CLASS}    @staticmethod\n    def work({SEVEN}): ...",
            f"{IN_CLASS}    def work(self, b, c, d, e, f, g): ...",
        ),
        "3: parameters: Thing.work takes 7",
    ),
]

MODULES = ", ".join(f"module_{index}" for index in range(21))
TWENTY_ONE = "".join(f"from module_{index} import a, b\n" for index in range(21))
FOURTEEN, SEVEN_MORE = ([f"noun_{index}" for index in range(*ends)] for ends in [(14,), (14, 21)])
NEIGHBOURS = package(f"{DOMAIN}/many", *FOURTEEN) | package(f"{DOMAIN}/more", *SEVEN_MORE)
FROM_NEIGHBOURS = (
    f"from sokovan.domain.many import {', '.join(FOURTEEN)}\nfrom sokovan.domain.more import {', '.join(SEVEN_MORE)}"
)

IMPORTS = [
    case(
        "import-count", "by from", Edit(SLOTS, TWENTY_ONE, TWENTY_ONE.partition("\n")[2]), "1: import-count: imports 21"
    ),
    case(
        "import-count",
        "on one line",
        Edit(
            TOOL,
            f"import {MODULES}",
            f"from __future__ import annotations\nimport {MODULES.removesuffix(', module_20')}",
        ),
        "1: import-count: imports 21",
    ),
    case(
        "import-count",
        "inside functions too",
        Edit(SLOTS, f"def late():\n    import {MODULES}", f"from one_module import {MODULES}"),
        "1: import-count: imports 21",
    ),
    Case(
        "import-count",
        "of modules imported from their package",
        {**NEIGHBOURS, SLOTS: FROM_NEIGHBOURS},
        f"{SLOTS}:1: import-count: imports 21",
        {SLOTS: FROM_NEIGHBOURS.removesuffix(", noun_20")},
    ),
    Case(
        "import-count",
        "but not of a composition root",
        {SLOTS: TWENTY_ONE},
        f"{SLOTS}:1: import-count",
        {SLOTS: "", "src/sokovan/entrypoints/server.py": TWENTY_ONE},
    ),
]

DEEP = package(f"{DOMAIN}/a/b/c/d", "x", "y", "z")
DEEPER = package(f"{DOMAIN}/a/b/c", "x", "y", "z")
THIN = package(f"{DOMAIN}/lifecycle", "kernel", "session")
VALIDATORS = package(f"{SCHEDULING}/validators", "base", "concurrency", "quota")
PLUGIN = f"{SCHEDULING}/validators/quota.py"


def gone(files: Mapping[str, str]) -> dict[str, None]:
    """The same files, removed."""
    return dict.fromkeys(files)


FOLDERS = [
    Case("depth", "of five", DEEP, f"{DOMAIN}/a/b/c/d:1: depth: 5 folders deep", {**gone(DEEP), **DEEPER}),
    Case(
        "folder-files",
        "of a package",
        THIN,
        f"{DOMAIN}/lifecycle:1: folder-files: modules in this folder: 2",
        package(f"{DOMAIN}/lifecycle", "machine"),
    ),
    Case(
        "folder-files",
        "those of subpackages counted",
        THIN,
        f"{DOMAIN}/lifecycle:1: folder-files",
        package(f"{DOMAIN}/lifecycle/tables", "agent", "kernel", "route"),
    ),
    Case(
        "folder-width",
        "of a folder, those of subpackages not counted",
        package(f"{DOMAIN}/many", *(f"noun_{index}" for index in range(15))),
        f"{DOMAIN}/many:1: folder-width: 15 modules side by side, the limit is 14",
        {
            **gone(package(f"{DOMAIN}/many", "noun_14")),
            **package(f"{DOMAIN}/many", *FOURTEEN),
            **package(f"{DOMAIN}/many/more", "x", "y", "z"),
        },
    ),
    Case(
        "plugin-length",
        "of a plugin, but not of its base",
        {**VALIDATORS, PLUGIN: "#\n" * 101},
        f"{PLUGIN}:1: plugin-length: 101 lines",
        {PLUGIN: "#\n" * 100, f"{SCHEDULING}/validators/base.py": "#\n" * 101},
    ),
]


def renamed(violation: str, fixed: str) -> tuple[dict[str, str], dict[str, str | None]]:
    """A module with a bad name, and the same with a good one, each with its test."""
    before, after = {violation: ""}, {fixed: ""}
    return before | mirrored(before), gone(before | mirrored(before)) | after | mirrored(after)


def misnamed(violation: str, fixed: str, message: str) -> Case:
    """A case about the name of one module."""
    return Case("file-name", violation, renamed(violation, fixed)[0], message, renamed(violation, fixed)[1])


FORBIDDEN = ("utils", "helpers", "common", "misc", "types", "manager", "data", "impl")
NAMES = [
    *(
        misnamed(f"{DOMAIN}/{name}.py", f"{DOMAIN}/queue.py", f"{DOMAIN}/{name}.py:1: file-name: {name!r} says")
        for name in FORBIDDEN
    ),
    misnamed("tools/tidy/utils.py", "tools/tidy/sizes.py", "tools/tidy/utils.py:1: file-name: 'utils'"),
    misnamed("tests/docs/helpers.py", "tests/docs/pages.py", "tests/docs/helpers.py:1: file-name: 'helpers'"),
    misnamed(f"{DOMAIN}/base.py", f"{DOMAIN}/queue.py", f"{DOMAIN}/base.py:1: file-name: 'base' belongs"),
    misnamed("tests/base.py", "tests/conftest.py", "tests/base.py:1: file-name: 'base' belongs"),
    misnamed(f"{DOMAIN}/myQueue.py", f"{DOMAIN}/my_queue2.py", "file-name: 'myQueue' is not lower snake"),
    misnamed(f"{DOMAIN}/_queue.py", f"{DOMAIN}/queue.py", "file-name: '_queue' is not lower snake"),
    Case(
        "file-name",
        "of a package",
        package(f"{DOMAIN}/utils", "a", "b", "c"),
        f"{DOMAIN}/utils:1: file-name: 'utils'",
        gone(package(f"{DOMAIN}/utils", "a", "b", "c")),
    ),
]

MIRROR = [
    Case(
        "mirror",
        "of a module without its test",
        {f"{DOMAIN}/queue.py": ""},
        f"{DOMAIN}/queue.py:1: mirror: its test is missing: tests/unit/domain/test_queue.py",
        {"tests/unit/domain/test_queue.py": ""},
    ),
    Case(
        "mirror",
        "of a test without its module",
        {"tests/unit/domain/test_queue.py": ""},
        f"tests/unit/domain/test_queue.py:1: mirror: its module is missing: {DOMAIN}/queue.py",
        {f"{DOMAIN}/queue.py": ""},
    ),
    Case(
        "mirror",
        "of a test in another folder than its module",
        {"tests/unit/domain/test_slots.py": None, "tests/unit/test_slots.py": ""},
        "tests/unit/test_slots.py:1: mirror: its module is missing: src/sokovan/slots.py",
        {"tests/unit/domain/test_slots.py": "", "tests/unit/test_slots.py": None},
    ),
    Case(
        "mirror",
        "but not of __main__ and __init__",
        {"src/sokovan/__main__.py": "", "tests/unit/test_start.py": ""},
        "tests/unit/test_start.py:1: mirror",
        {"tests/unit/test_start.py": None},
    ),
]


def edited(old: str, new: str) -> dict[str, str]:
    """ARCHITECTURE.md with one piece of text replaced."""
    assert old in ARCHITECTURE
    return {"ARCHITECTURE.md": ARCHITECTURE.replace(old, new)}


WHOLE = {"ARCHITECTURE.md": ARCHITECTURE}
WIRE = package("src/sokovan/wire", "agents", "leases", "storage")

DESCRIPTIONS = [
    Case("architecture", "of no file", gone(WHOLE), "ARCHITECTURE.md:1: architecture: no paragraph", WHOLE),
    Case(
        "architecture",
        "of a new folder of the package",
        WIRE,
        "ARCHITECTURE.md:1: architecture: no paragraph starts with `wire/`",
        {"ARCHITECTURE.md": f"{ARCHITECTURE}\n### src/sokovan/wire/ : promises\n\n{PROSE}\n"},
    ),
    *(
        Case(
            "architecture",
            f"of the folder {name}",
            {f"{name}/README.md": ""},
            f"architecture: no paragraph starts with `{name}/`",
            {"ARCHITECTURE.md": f"{ARCHITECTURE}\n`{name}/` {PROSE}"},
        )
        for name in ("benchmarks", "examples", "deploy")
    ),
    *(
        Case("architecture", f"of the folder {name}", edited(f"`{name}/`", "Text"), f"starts with `{name}/`", WHOLE)
        for name in ("tests", "tools", "docs", "domain")
    ),
    Case(
        "architecture", "too short", edited(f"`tools/` {PROSE}", "`tools/` Tools."), "`tools/` has 5 characters", WHOLE
    ),
    Case(
        "architecture",
        "too short under a heading",
        edited(f"## `domain/`\n\n{PROSE}", "## `domain/`\n\nNouns.\n\n## More"),
        "`domain/` has 5 characters",
        WHOLE,
    ),
    Case(
        "architecture",
        "about a folder that does not exist",
        {"ARCHITECTURE.md": f"{ARCHITECTURE}\n## Soon\n\n`wire/` {PROSE}"},
        "architecture: there is no folder `wire/`",
        {"ARCHITECTURE.md": f"{ARCHITECTURE}\n## Not there yet\n\n### Next\n\n`wire/` {PROSE}"},
    ),
    Case(
        "architecture",
        "about a folder that exists, among those not there yet",
        edited("`tools/`", "## Not there yet\n\n`tools/`"),
        "no paragraph starts with `tools/`",
        WHOLE,
    ),
    Case(
        "architecture",
        "inside fenced code only",
        edited(f"`tools/` {PROSE}", f"```\n`tools/` {PROSE}\n```"),
        "no paragraph starts with `tools/`",
        {"ARCHITECTURE.md": f"{ARCHITECTURE}\n```\n`wire/` {PROSE}\n```\n\nThis and/or that.\n"},
    ),
]

NOQA = "import os  # noqa: F401"
IGNORE = "x: int = ''  # type: ignore[assignment]"
BOTH = "x: int = ''  # type: ignore[assignment]  # noqa: E501"
WHY = "  # the reader must see this line whole"

PROSE_CASES = [
    *(
        case(
            "docstring",
            f"of {what}",
            Edit(SLOTS, f'{head}"""{LONG_DOC}"""\n', f'{head}"""{SIXTEEN_WORDS}\n\n    {"more " * 30}"""\n'),
            f"1: docstring: the first line of {what} has 81",
        )
        for what, head in [
            ("the module", ""),
            ("work", "def work():\n    "),
            ("wait", "async def wait():\n    "),
            ("Thing", "class Thing:\n    "),
        ]
    ),
    case(
        "docstring",
        "but not of private names",
        Edit(SLOTS, f'def work():\n    """{LONG_DOC}"""\n', f'def _work():\n    """{LONG_DOC}"""\n'),
        "1: docstring",
    ),
    *(
        case("noqa-reason", f"after {what} in {path}", Edit(path, text, text + WHY), "1: noqa-reason:")
        for path in (SLOTS, TEST, TOOL)
        for what, text in [("noqa", NOQA), ("type: ignore", IGNORE), ("both", BOTH), ("two codes", f"{NOQA}, E401")]
    ),
    *(
        case("noqa-reason", f"of {text!r}", Edit(SLOTS, text, NOQA + WHY), "1: noqa-reason:")
        for text in [
            "import os  # noqa",
            f"import os  # noqa{WHY}",
            "import os  # NOQA:F401",
            "import os  # noqa: F401 - the dash that mypy cannot read",
            "import os  # noqa: F401  # short",
            "import os  # why it is so  # noqa: F401",
            f"x: int = ''  # type: ignore{WHY}",
            f"# ruff: noqa{WHY}",
            f"# ruff: noqa: F401{WHY}",
            f"# flake8: noqa{WHY}",
            f"# ruff: disable[F401]{WHY}",
            f"# ruff: file-ignore[F401]{WHY}",
            f"import os  # ruff: ignore[F401]{WHY}",
            f"# mypy: ignore-errors{WHY}",
        ]
    ),
    case(
        "noqa-reason",
        "but not inside a string",
        Edit(SLOTS, "import os  # noqa: F401", "TEXT = 'import os  # noqa: F401'  # the words noqa and type: ignore"),
        "1: noqa-reason: 'noqa: F401' gives no reason",
    ),
]

UNSAFE = [
    case("unsafe-call", f"of {name}", Edit(SLOTS, text, "import asyncio\n"), f"{line}: unsafe-call: {name}")
    for name, line, text in [
        ("create_subprocess_shell", 2, "import asyncio\nasyncio.create_subprocess_shell('ls')"),
        ("create_subprocess_shell", 1, "from asyncio import create_subprocess_shell as start"),
        ("subprocess_shell", 1, "loop.subprocess_shell(print, 'ls')"),
        ("unsafe_load", 2, "import yaml\nyaml.unsafe_load('')"),
        ("full_load", 1, "from yaml import full_load"),
        ("marshal", 2, "def late():\n    import marshal"),
        ("cloudpickle", 1, "import cloudpickle.compat"),
        ("jsonpickle", 1, "from jsonpickle import decode"),
    ]
]

_CALLER = f"{ORCHESTRATOR}/one.py"
_REACHING = {_CALLER: "class _One:\n    def two(self):\n        self._a.b.do()\n"}
REACHING = [
    Case(
        "reach-through",
        "in the orchestrator",
        _REACHING,
        f"{_CALLER}:3: reach-through: self._a.b.do() reaches through an object",
        gone(_REACHING),
    )
]

SYNTAX = [case("syntax", "of a file that is not Python", Edit(SLOTS, "def (:\n", ""), "1: syntax: invalid syntax")]

CASES = [*SIZES, *IMPORTS, *FOLDERS, *NAMES, *MIRROR, *DESCRIPTIONS, *PROSE_CASES, *UNSAFE, *REACHING, *SYNTAX]
