"""Patterns of .sokovanignore, as git reads those of .gitignore."""

from __future__ import annotations

import pytest

from sokovan.sdk.ignore_patterns import IgnorePatterns


@pytest.mark.parametrize(
    ("patterns", "path", "ignored"),
    [
        ("*.pt", "a.pt", True),
        ("*.pt", "runs/a.pt", True),
        ("*.pt", "a.pty", False),
        ("/a", "a", True),
        ("/a", "b/a", False),
        ("a/b", "a/b", True),
        ("a/b", "c/a/b", False),
        ("data/", "data/x", True),
        ("data/", "x/data/y", True),
        ("data/", "data", False),
        ("data", "data/x/y", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("**/b", "x/b", True),
        ("a/**", "a/x/y", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "a.txt", True),
        ("[!ab].txt", "a.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("*.pt\n!best.pt", "best.pt", False),
        ("# *\n\n", "a", False),
        ("\\#a", "#a", True),
        ("a.b", "axb", False),
    ],
)
def test_patterns_match_as_in_git(patterns: str, path: str, *, ignored: bool) -> None:
    assert IgnorePatterns.read(patterns.splitlines()).match(path) is ignored
