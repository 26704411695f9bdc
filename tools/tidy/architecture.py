"""ARCHITECTURE.md has one paragraph per folder, and none about a folder that does not exist."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from tools.tidy.finding import Spot
from tools.tidy.tree import ARCHITECTURE, PACKAGE, Tree

TEXT_CHARACTERS = 80
TOP_FOLDERS = ("tests", "tools", "docs", "benchmarks", "examples", "deploy")
FUTURE = "not there yet"

_PATH = r"(?P<path>[\w.-]+(?:/[\w.-]+)*)/"
# `domain/`, **domain/** or **`domain/`**, also as a list item; plain text like "and/or" is no path.
_PARAGRAPH = re.compile(rf"(?:[-*+] +)?(?:\*\*`|`|\*\*){_PATH}(?:`\*\*|`|\*\*)(?P<text>.*)", re.DOTALL)
_HEADING = re.compile(rf"[*`]*{_PATH}[*`]*(?:[\s:,].*)?$")
_PARAGRAPH_STARTS = ("#", "- ", "* ", "+ ")


@dataclass(frozen=True)
class Block:
    """A paragraph or heading, under the headings above it."""

    line: int
    text: str
    headings: tuple[str, ...]
    is_heading: bool = False


@dataclass(frozen=True)
class Description:
    """The text about one folder in ARCHITECTURE.md."""

    line: int
    path: PurePosixPath
    text: str
    is_future: bool


def undescribed_folders(tree: Tree) -> Iterator[Spot]:
    """Folders without a paragraph, paragraphs too short, paragraphs without a folder."""
    described = list(descriptions(tree.documents.get(ARCHITECTURE, "")))
    longest = {folder: _longest_text(folder, described) for folder in top_folders(tree)}
    for folder, text in longest.items():
        if text is None:
            yield Spot(ARCHITECTURE, 1, f"no paragraph starts with `{folder.name}/`", str(folder))
        elif len(text) < TEXT_CHARACTERS:
            message = f"`{folder.name}/` has {len(text)} characters of text, {TEXT_CHARACTERS} is the least"
            yield Spot(ARCHITECTURE, 1, message, str(folder))
    for description in described:
        if not description.is_future and not tree.folders & {description.path, PACKAGE / description.path}:
            yield Spot(ARCHITECTURE, description.line, f"there is no folder `{description.path}/`")


def top_folders(tree: Tree) -> list[PurePosixPath]:
    """The folders of the package and those beside it that need a paragraph."""
    inside = sorted(folder for folder in tree.folders if folder.parent == PACKAGE)
    beside = [PurePosixPath(name) for name in TOP_FOLDERS]
    return inside + [folder for folder in beside if folder in tree.folders]


def _longest_text(folder: PurePosixPath, described: list[Description]) -> str | None:
    names = {folder, folder.relative_to(PACKAGE) if PACKAGE in folder.parents else folder}
    texts = (about.text for about in described if about.path in names and not about.is_future)
    return max(texts, key=len, default=None)


def descriptions(document: str) -> Iterator[Description]:
    """Every heading or paragraph that starts with a folder, with its text."""
    blocks = list(_blocks(document))
    for at, block in enumerate(blocks):
        found = (_HEADING if block.is_heading else _PARAGRAPH).match(block.text)
        if found:
            text = _text_below(blocks[at + 1 :]) if block.is_heading else found["text"]
            future = any(heading.lower() == FUTURE for heading in block.headings)
            path = PurePosixPath(found["path"])
            yield Description(block.line, path, " ".join(text.strip(" :.").split()), future)


def _text_below(blocks: list[Block]) -> str:
    heads = [at for at, block in enumerate(blocks) if block.is_heading]
    return "\n".join(block.text for block in blocks[: heads[0] if heads else None])


def _blocks(document: str) -> Iterator[Block]:
    """Split Markdown at blank lines, headings and list items."""
    headings: tuple[str, ...] = ()
    paragraph: Block | None = None
    for number, line in enumerate([*_without_code(document), ""], start=1):
        ends_paragraph = not line.strip() or line.startswith(_PARAGRAPH_STARTS)
        if ends_paragraph and paragraph:
            yield paragraph
            paragraph = None
        if line.startswith("#"):
            headings = _headings_with(line, headings)
            yield Block(number, headings[-1], headings, is_heading=True)
        elif paragraph:
            paragraph = replace(paragraph, text=f"{paragraph.text}\n{line}")
        elif line.strip():
            paragraph = Block(number, line.strip(), headings)


def _without_code(document: str) -> Iterator[str]:
    """The lines of a document, with those of fenced code empty."""
    fenced = False
    for line in document.splitlines():
        is_fence = line.lstrip().startswith("```")
        fenced ^= is_fence
        yield "" if fenced or is_fence else line


def _headings_with(line: str, above: tuple[str, ...]) -> tuple[str, ...]:
    """The headings above and including this one; a skipped level is an empty one."""
    level = len(line) - len(line.lstrip("#"))
    padded = (*above, *[""] * level)
    return (*padded[: level - 1], line.strip("# "))
