"""Exceptions to the rules, each a table with its reason in tidy-waivers.toml."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.tidy.finding import Finding, Spot
from tools.tidy.tree import WAIVERS

RULE = "waivers"
HINT = "write [[waiver]] with rule, path, reason and maybe name; delete it when it is stale"
REASON_CHARACTERS = 15

_HEADER = "[[waiver]]"
_REQUIRED = frozenset({"rule", "path", "reason"})
_ALLOWED = _REQUIRED | {"name"}


@dataclass(frozen=True)
class Waiver:
    """One exception: the finding that is waived, and the reason."""

    line: int
    rule: str
    path: str
    reason: str
    name: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether this waiver applies to `finding`."""
        same_place = (finding.rule, finding.spot.path) == (self.rule, self.path)
        return same_place and self.name in {"", finding.spot.name}


class MalformedWaivers(ValueError):
    """The waiver file cannot be read as a list of waivers."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        super().__init__(message)


def apply_waivers(text: str, found: Sequence[Finding]) -> tuple[list[Finding], int]:
    """The findings that remain, those about waivers included, and how many are waived."""
    try:
        waivers = read_waivers(text)
    except MalformedWaivers as error:
        return [*found, _complaint(error.line, str(error))], 0
    remaining = [finding for finding in found if not any(waiver.covers(finding) for waiver in waivers)]
    return [*remaining, *_complaints(waivers, found)], len(found) - len(remaining)


def read_waivers(text: str) -> list[Waiver]:
    """Parse the waiver file. Raises MalformedWaivers."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MalformedWaivers(1, f"not TOML: {error}") from error
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() == _HEADER]
    tables = document.pop("waiver", [])
    if document or not isinstance(tables, list) or len(tables) != len(lines):
        raise MalformedWaivers(1, f"only {_HEADER} tables are read, each header on a line of its own")
    return [_read_waiver(line, table) for line, table in zip(lines, tables, strict=True)]


def _read_waiver(line: int, table: dict[str, object]) -> Waiver:
    texts = {key: value.strip() for key, value in table.items() if isinstance(value, str)}
    if len(texts) != len(table) or not _REQUIRED <= texts.keys() <= _ALLOWED:
        raise MalformedWaivers(line, f"a waiver has {', '.join(sorted(_REQUIRED))}, maybe name, all strings")
    return Waiver(line, **texts)


def _complaints(waivers: Sequence[Waiver], found: Sequence[Finding]) -> Iterator[Finding]:
    for waiver in waivers:
        if len(waiver.reason) < REASON_CHARACTERS:
            yield _complaint(waiver.line, f"the reason has fewer than {REASON_CHARACTERS} characters")
        if not any(waiver.covers(finding) for finding in found):
            yield _complaint(waiver.line, f"stale, no {waiver.rule} finding at {waiver.path} {waiver.name}".rstrip())


def _complaint(line: int, message: str) -> Finding:
    return Finding(Spot(WAIVERS, line, message), RULE, HINT)
