"""What a rule is, and what it finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.tidy.tree import Tree


@dataclass(frozen=True, order=True)
class Spot:
    """One place in the tree that breaks a rule."""

    path: str
    line: int
    message: str
    # The function or class it is about, so that a waiver can name it.
    name: str = ""


@dataclass(frozen=True)
class Rule:
    """A law of the tree: its name, how to mend what breaks it, how to find that."""

    name: str
    hint: str
    find: Callable[[Tree], Iterator[Spot]]


@dataclass(frozen=True, order=True)
class Finding:
    """A spot with the rule it breaks, as it is printed."""

    spot: Spot
    rule: str
    hint: str

    def __str__(self) -> str:
        return f"{self.spot.path}:{self.spot.line}: {self.rule}: {self.spot.message} ({self.hint})"
