"""Plain vocabulary: module names, class names, the words of docstrings, comments and help texts."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath

from tools.tidy.definitions import classes, last_word
from tools.tidy.finding import Spot
from tools.tidy.layout import PLUGIN_FOLDERS
from tools.tidy.tree import GLOSSARY, PACKAGE, TOOLS, SourceFile, Tree

# A module in one of these folders is named after a plugin or a command, which the user sees under the same name.
NAMED_AFTER_USE = (*PLUGIN_FOLDERS, PACKAGE / "cli" / "commands", PACKAGE / "cli" / "local")
WORDS_HEADING = "## Words in module names"
BANNED_WORDS = re.compile(
    r"\b(whoever|whatever becomes|nobody|somebody|wish(?:es)?|errands?|mends?|mended|stones?|the word|last word"
    r"|in doubt|heed|casualt\w+|furnish\w*|nursery|pretend\w*|asks? for nothing|less than nothing|goes by|our words"
    r"|make useless|be had|as things are|told|tells?|himself|he|his)\b",
    re.IGNORECASE,
)
BANNED_OPENING = re.compile(r"(What|Who|Where|Whoever|Whatever)\b")
# "Where" opens conditions as well: comments may begin with it.
BANNED_COMMENT = re.compile(r"# (What|Who|Whoever|Whatever)\b")

_CLI = PACKAGE / "cli"
_TERM = re.compile(r"\*\*(.+?)\*\*")
_MODULE = re.compile(r"`([a-z_][\w.]*)`")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
# v0001_sessions: migrations are numbered.
_NUMBERED = re.compile(r"v\d+_")
_HELP_NAMES = frozenset({"help", "hint", "description", "problem"})


def unknown_module_names(tree: Tree) -> Iterator[Spot]:
    """Modules and packages whose name has a word that the glossary does not have."""
    if GLOSSARY not in tree.documents:
        yield Spot(GLOSSARY, 1, "there is no glossary")
        return
    known = {_singular(word) for _, entry in _entries(tree.documents[GLOSSARY]) for word in _terms(entry)}
    for path in _named_paths(tree):
        unknown = [word for word in _words_of(path) if _singular(word) not in known]
        if unknown:
            yield Spot(str(path), 1, f"not in the glossary: {', '.join(unknown)}")


def stale_glossary(tree: Tree) -> Iterator[Spot]:
    """Modules that the glossary names but the package lacks, and listed words that no module has."""
    document = tree.documents.get(GLOSSARY, "")
    modules = tree.modules()
    for line, entry in _entries(document):
        for module in _MODULE.findall(_parenthesis(entry)):
            if f"{PACKAGE.name}.{module}" not in modules:
                yield Spot(GLOSSARY, line, f"there is no module sokovan.{module}", module)
    used = {_singular(word) for path in _named_paths(tree) for word in _words_of(path)}
    above, _, listed = document.partition(WORDS_HEADING)
    for line, entry in _entries(listed.partition("\n## ")[0], first_line=above.count("\n") + 1):
        for word in sorted(word for word in _terms(entry) if _singular(word) not in used):
            yield Spot(GLOSSARY, line, f"no module name has the word {word!r}", word)


def repeated_classes(tree: Tree) -> Iterator[Spot]:
    """Public class names that are defined more than once in the package."""
    places = defaultdict[str, list[tuple[SourceFile, int]]](list)
    for file in tree.within(PACKAGE):
        for _, node in classes(file.syntax):
            places[node.name].append((file, node.lineno))
    for name, found in places.items():
        if len(found) > 1 and not name.startswith("_"):
            first, *others = found
            for file, line in others:
                yield Spot(str(file.path), line, f"class {name} is defined in {first[0].path} too", name)


def mannered_texts(tree: Tree) -> Iterator[Spot]:
    """Docstrings, comments, help texts, hints and problems with a banned word or opening."""
    for file in tree.within(PACKAGE, TOOLS):
        for line, text in _docstrings(file.syntax):
            found = BANNED_WORDS.search(text) or BANNED_OPENING.match(text)
            if found:
                yield _mannered(file, line, text, found[0])
        for line, text in _messages(file):
            found = BANNED_WORDS.search(text)
            if found:
                yield _mannered(file, line, text, found[0])
        for line, text, opens in _comments(file):
            found = BANNED_WORDS.search(text) or (BANNED_COMMENT.match(text) if opens else None)
            if found:
                yield _mannered(file, line, text, found[0])


def _mannered(file: SourceFile, line: int, text: str, found: str) -> Spot:
    return Spot(str(file.path), line, f"{found!r} in {text.strip().splitlines()[0][:60]!r}")


def _docstrings(syntax: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(syntax):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def _comments(file: SourceFile) -> Iterator[tuple[int, str, bool]]:
    """The comments of a file, and whether each opens a block of its own."""
    before = -1
    texts = _lines_of_strings(file.syntax)
    for number, line in enumerate(file.text.splitlines(), 1):
        text = "" if number in texts else line.strip()
        if text.startswith("#"):
            yield number, text, before != number - 1
            before = number
        elif "  # " in text:
            yield number, f"# {text.rpartition('  # ')[2]}", True


def _lines_of_strings(syntax: ast.Module) -> frozenset[int]:
    """The lines of strings that have several."""
    spans = ((node.lineno, node.end_lineno or 0) for node, _ in _strings(syntax))
    return frozenset(line for first, last in spans if last > first for line in range(first, last + 1))


def _messages(file: SourceFile) -> Iterator[tuple[int, str]]:
    """Strings that users read: all sentences of the command line, elsewhere those given to `help` or `hint`."""
    if file.inside(_CLI):
        docstrings = {id(node.value) for node in ast.walk(file.syntax) if isinstance(node, ast.Expr)}
        yield from (
            (node.lineno, text) for node, text in _strings(file.syntax) if id(node) not in docstrings and " " in text
        )
        return
    for node in ast.walk(file.syntax):
        match node:
            case ast.keyword(arg=str(name), value=value) if name in _HELP_NAMES:
                yield from ((found.lineno, text) for found, text in _strings(value))
            case ast.Assign(targets=[target], value=value) if last_word(target).lower() in _HELP_NAMES:
                yield from ((found.lineno, text) for found, text in _strings(value))


def _strings(syntax: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
    for node in ast.walk(syntax):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def _named_paths(tree: Tree) -> list[PurePosixPath]:
    """Modules and packages whose names the glossary explains."""
    files = [file.path for file in tree.within(PACKAGE)]
    modules = {path for path in files if not path.stem.startswith("__")}
    packages = {parent for path in files for parent in path.parents if PACKAGE in parent.parents}
    return sorted(path for path in modules | packages if not set(path.parents) & set(NAMED_AFTER_USE))


def _words_of(path: PurePosixPath) -> list[str]:
    return [word for word in _NUMBERED.sub("", path.stem, count=1).split("_") if not word.isdecimal()]


def _entries(document: str, first_line: int = 1) -> Iterator[tuple[int, str]]:
    """The list items that start with a bold term, wrapped lines joined, with their line numbers."""
    entry: tuple[int, str] | None = None
    for line, text in enumerate([*document.splitlines(), ""], first_line):
        if entry and text.startswith("  "):
            entry = entry[0], f"{entry[1]} {text.strip()}"
        else:
            if entry:
                yield entry
            entry = (line, text) if text.startswith("- **") else None


def _terms(entry: str) -> frozenset[str]:
    """The words of an entry's terms; HyperNode is one word as well as two."""
    terms = " ".join(_TERM.findall(entry.partition(":")[0]))
    return frozenset(word.lower() for word in [*_WORD.findall(terms), *terms.replace("-", " ").split()])


def _parenthesis(entry: str) -> str:
    """The parenthesis after the terms of a glossary entry, which names its modules."""
    head = re.match(r"- (?:\*\*.+?\*\*[, ]*)+\((?P<modules>[^)]*)\)", entry)
    return head["modules"] if head else ""


def _singular(word: str) -> str:
    for plural, ending in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x")):
        if word.endswith(plural):
            return word.removesuffix(plural) + ending
    return word if word.endswith(("ss", "us")) else word.removesuffix("s")
