"""Rules and findings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.tidy.tree import Tree


@dataclass(frozen=True, order=True)
class Spot:
    """One place in the tree that violates a rule."""

    path: str
    line: int
    message: str
    # The function or class it is about, so that a waiver can name it.
    name: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule of the tree: its name, a hint how to fix a violation, and the function that finds violations."""

    name: str
    hint: str
    find: Callable[[Tree], Iterator[Spot]]


@dataclass(frozen=True, order=True)
class Finding:
    """A spot with the rule that it violates, in printed form."""

    spot: Spot
    rule: str
    hint: str

    def __str__(self) -> str:
        return f"{self.spot.path}:{self.spot.line}: {self.rule}: {self.spot.message} ({self.hint})"
