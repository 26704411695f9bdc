"""The tree that the rules check: read and parsed once, then immutable."""

import ast
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PACKAGE = PurePosixPath("src/sokovan")
TESTS = PurePosixPath("tests")
TOOLS = PurePosixPath("tools")
ARCHITECTURE = "ARCHITECTURE.md"
GLOSSARY = "docs/glossary.md"
WAIVERS = "tidy-waivers.toml"

_CODE = ("src", "tests", "tools")
_DOCUMENTS = (ARCHITECTURE, GLOSSARY, WAIVERS)
_DOT_FOLDERS_KEPT = (".ci", ".github")


@dataclass(frozen=True)
class SourceFile:
    """A Python file: path, text and syntax tree."""

    path: PurePosixPath
    text: str
    syntax: ast.Module
    # None where the file parses; its syntax is an empty module otherwise.
    error: SyntaxError | None = None

    @property
    def stem(self) -> str:
        """The module's own name."""
        return self.path.stem

    @property
    def line_count(self) -> int:
        """The number of lines."""
        return len(self.text.splitlines())

    def inside(self, *folders: PurePosixPath) -> bool:
        """Whether the file lies anywhere under one of `folders`."""
        path = str(self.path)
        return any(path.startswith(f"{folder}/") for folder in folders)


@dataclass(frozen=True)
class Tree:
    """Every Python file of src, tests and tools, and the folders that hold any file."""

    files: tuple[SourceFile, ...]
    folders: frozenset[PurePosixPath]
    documents: Mapping[str, str]

    def within(self, *folders: PurePosixPath) -> Iterator[SourceFile]:
        """The files under any of `folders`."""
        return (file for file in self.files if file.inside(*folders))

    def modules(self) -> frozenset[str]:
        """The dotted names of every module of the package and of the tools."""
        return frozenset(_dotted_name(file.path) for file in self.within(PACKAGE, TOOLS))


def _dotted_name(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(part for part in parts if part not in {"src", "__init__"})


def read_tree(root: Path) -> Tree:
    """Read the tree under `root`."""
    paths = list(_paths_under(root))
    code = (path for path in paths if path.suffix == ".py" and path.parts[0] in _CODE)
    return Tree(
        files=tuple(_read_file(root, path) for path in code),
        folders=frozenset(parent for path in paths for parent in path.parents),
        documents={name: (root / name).read_text("utf-8") for name in _DOCUMENTS if (root / name).is_file()},
    )


def _paths_under(root: Path) -> Iterator[PurePosixPath]:
    for folder, names, file_names in os.walk(root):
        names[:] = sorted(name for name in names if _is_project_folder(name))
        for file_name in sorted(file_names):
            yield PurePosixPath((Path(folder) / file_name).relative_to(root).as_posix())


def _is_project_folder(folder_name: str) -> bool:
    return folder_name in _DOT_FOLDERS_KEPT or not folder_name.startswith((".", "__pycache__"))


def _read_file(root: Path, path: PurePosixPath) -> SourceFile:
    text = (root / path).read_text("utf-8")
    try:
        return SourceFile(path, text, ast.parse(text))
    except SyntaxError as error:
        return SourceFile(path, text, ast.parse(""), error)
