"""Patterns of files to leave out, in the notation of .gitignore."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TOKENS = re.compile(r"/\*\*/|\*\*/|/\*\*$|\*\*|\*|\?|\[[^\]]+\]|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class IgnorePatterns:
    """Patterns in order; the last one that matches a path decides."""

    rules: tuple[tuple[re.Pattern[str], bool], ...] = ()

    @classmethod
    def read(cls, lines: Iterable[str]) -> IgnorePatterns:
        """The patterns of a file; empty lines and comments are skipped."""
        texts = (line.rstrip("\n").rstrip(" ") for line in lines)
        return cls(tuple(_rule(text) for text in texts if text and not text.startswith("#")))

    def match(self, path: str) -> bool:
        """Whether a file is left out, by itself or with a folder above it.

        >>> IgnorePatterns.read(["*.pt", "!best.pt", "/data/"]).match("runs/last.pt")
        True
        """
        ignored = False
        for pattern, excludes in self.rules:
            if pattern.match(path):
                ignored = excludes
        return ignored


def _rule(text: str) -> tuple[re.Pattern[str], bool]:
    excludes = not text.startswith("!")
    text = text.removeprefix("!")
    is_folder, text = text.endswith("/"), text.rstrip("/")
    # A pattern with a slash in it is relative to the folder; one without matches at any depth.
    prefix = "" if "/" in text else "(?:.*/)?"
    body = "".join(_translated(token) for token in _TOKENS.findall(text.removeprefix("/")))
    return re.compile(f"{prefix}{body}{'/' if is_folder else '(?:/|$)'}", re.DOTALL), excludes


def _translated(token: str) -> str:
    fixed = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in fixed:
        return fixed[token]
    if len(token) > 2 and token.startswith("["):
        negated = token[1] in "!^"
        members = re.escape(token[2 if negated else 1 : -1]).replace("\\-", "-")
        return f"[{'^' if negated else ''}{members}]"
    return re.escape(token[-1])
