"""How a command declares its options: annotations of its parameters.

    def ps(*, all: Annotated[bool, Parameter(name=["--all", "-a"], help="Include all.")] = False) -> int:

Every command loads this module at its start, so that it imports nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    T = TypeVar("T", bound=type)

# A parameter with this name is a group of options: the fields of its dataclass.
FIELDS = "*"
# The attribute of a dataclass that has its declaration.
DECLARED = "__declared_parameter__"


class OptionGroup:
    """A headline of the help screen; those with lower keys come first."""

    def __init__(self, name: str, *, sort_key: int) -> None:
        self.name, self.sort_key = name, sort_key


class Parameter:
    """The names and the help of an option, or the help of an argument.

    `negative` are the names that set a switch to false, by default its name with "no".
    With `allow_leading_hyphen`, its value may begin with one.
    """

    def __init__(
        self,
        *,
        name: str | Sequence[str] = (),
        help: str = "",  # noqa: A002  # as it is written in declarations
        negative: str | Sequence[str] | None = None,
        group: OptionGroup | None = None,
        show_choices: bool = True,
        allow_leading_hyphen: bool = False,
    ) -> None:
        self.names = (name,) if isinstance(name, str) else tuple(name)
        self.help, self.group, self.show_choices = help, group, show_choices
        self.negatives = (negative,) if isinstance(negative, str) else None if negative is None else tuple(negative)
        self.allow_leading_hyphen = allow_leading_hyphen

    def __call__(self, options: T) -> T:
        """Declare that the fields of a dataclass are options."""
        setattr(options, DECLARED, self)
        return options
