"""Commands with every kind of argument."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from sokovan.cli.arguments.parameters import OptionGroup, Parameter

COMMON = OptionGroup("Common options", sort_key=100)
Names = tuple[str, ...]


@Parameter(name="*", group=COMMON)
@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options of several commands."""

    url: Annotated[str | None, Parameter(help="Server.")] = None
    json: Annotated[bool, Parameter(negative=(), help="Print JSON.")] = False


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Options of which one is required."""

    begins: Annotated[str, Parameter(name="--from", help="Beginning.")]
    lasts: Annotated[str | None, Parameter(name="--for", help="Length.")] = None


DEFAULT = Common()


def submit(
    name: str,
    /,
    *command: str,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=())] = False,  # noqa: A002  # the flag is --all
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False,
    label: Annotated[Names, Parameter(name=["--label", "-l"], negative=())] = (),
    size: Annotated[int | None, Parameter(name=["--size", "-n"])] = None,
    open: Annotated[bool | None, Parameter(negative="--closed")] = None,  # noqa: A002  # the flag is --open
    sort: Annotated[Literal["age", "-age"] | None, Parameter(allow_leading_hyphen=True)] = None,
    by_queue: Literal["yes", "no"] = "yes",
    wait: float = 1.5,
    keep: bool = True,
    file: Path | None = None,
    kernels: tuple[int, ...] = (),
    common: Common = DEFAULT,
) -> int:
    """Submit something.

    More about it.

    Parameters
    ----------
    name
        Name of it,
        in one word.
    size
        How large it is.
    """
    del name, command, all, watch, label, size, open, sort, by_queue, wait, keep, file, kernels, common
    return 0


def book(name: str | None = None, /, *, timed: Timed) -> int:
    """Book something."""
    del name, timed
    return 0
