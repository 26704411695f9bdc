"""Docstrings, and the reasons of comments that suppress a tool."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tools.tidy.definitions import definitions
from tools.tidy.finding import Spot
from tools.tidy.tree import PACKAGE, TESTS, TOOLS, SourceFile, Tree

SUMMARY_CHARACTERS = 80
REASON_CHARACTERS = 10

# One line and one code at a time, the only form mypy and ruff share: a reason after a second `#`.
_ONE_LINE = re.compile(r"noqa: ?[A-Z]+\d+(, ?[A-Z]+\d+)*|type: ?ignore\[[a-z-]+(, ?[a-z-]+)*\]")
_ANY = re.compile(r"noqa\b|type\s*:\s*ignore|(ruff|flake8)\s*:\s*\w|mypy\s*:\s*\w", re.IGNORECASE)


def long_summaries(tree: Tree) -> Iterator[Spot]:
    """Public docstrings whose first line is too long."""
    for file in tree.within(PACKAGE):
        for name, line, docstring in _docstrings(file):
            length = len(docstring.partition("\n")[0].rstrip())
            if length > SUMMARY_CHARACTERS:
                message = f"the first line of {name or 'the module'} has {length} characters"
                yield Spot(str(file.path), line, f"{message}, the limit is {SUMMARY_CHARACTERS}", name)


def _docstrings(file: SourceFile) -> Iterator[tuple[str, int, str]]:
    yield "", 1, ast.get_docstring(file.syntax) or ""
    for definition in definitions(file.syntax):
        if definition.is_public:
            yield definition.name, definition.node.lineno, ast.get_docstring(definition.node) or ""


def silent_suppressions(tree: Tree) -> Iterator[Spot]:
    """Comments that suppress a tool for more than one line, or without a reason."""
    for file in tree.within(PACKAGE, TESTS, TOOLS):
        for line, comment in _comments(file):
            message = _suppression_complaint(comment)
            if message:
                yield Spot(str(file.path), line, message)


def _comments(file: SourceFile) -> Iterator[tuple[int, str]]:
    if file.error or not _ANY.search(file.text):  # most files: splitting them into tokens is slow
        return
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _suppression_complaint(comment: str) -> str:
    """The complaint about a comment; the reason follows its last suppressing part."""
    parts = [part.strip() for part in comment.split("#")[1:]]
    suppressing = [at for at, part in enumerate(parts) if _ANY.match(part)]
    if not suppressing:
        return ""
    for at in suppressing:
        if not _ONE_LINE.fullmatch(parts[at]):
            return f"{parts[at]!r} is not one line's `noqa: CODE` or `type: ignore[code]`"
    reason = "#".join(parts[suppressing[-1] + 1 :])
    return "" if len(reason) >= REASON_CHARACTERS else f"{parts[suppressing[-1]]!r} gives no reason"
