"""The arguments of a command, from its signature and its docstring.

Parameters of commands are texts, whole numbers, numbers, paths, switches and choices; or
one of these or None; or a tuple of them, for an option that may be repeated; or a dataclass
whose fields are options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from sokovan.cli.arguments.parameters import DECLARED, FIELDS, OptionGroup, Parameter

KINDS = (bool, int, float, str, Path)
_HEADING = "Parameters\n----------\n"
_PLAIN = Parameter()


class ValueType(NamedTuple):
    """The type of a value, or of each of several; `choices` if only these are valid."""

    kind: type
    choices: tuple[str, ...] = ()
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Argument:
    """An option or a positional argument.

    `owner` is its parameter, `field` one of its dataclass.
    """

    owner: str
    field: str = ""
    names: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    type: ValueType
    positional: bool = False
    required: bool = False
    help: str = ""
    group: OptionGroup | None = None
    show_choices: bool = True
    allow_leading_hyphen: bool = False

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    @property
    def is_switch(self) -> bool:
        """Whether it is an option without a value."""
        return self.type.kind is bool and not self.positional


class CommandArguments:
    """The arguments of a command, in the order of its signature."""

    def __init__(self, words: str, function: Callable[..., Any]) -> None:
        self.words, self.function = words, function
        self.text, described = _docstring(function)
        self.option_classes: dict[str, type] = {}
        self.all = tuple(self._read(described))

    @cached_property
    def positionals(self) -> tuple[Argument, ...]:
        """The positional arguments."""
        return tuple(one for one in self.all if one.positional)

    @cached_property
    def options(self) -> Mapping[str, Argument]:
        """The options, by each of their names."""
        return {name: one for one in self.all if not one.positional for name in (*one.names, *one.negatives)}

    def _read(self, described: Mapping[str, str]) -> Iterator[Argument]:
        hints = get_type_hints(self.function, include_extras=True)
        for name, parameter in inspect.signature(self.function).parameters.items():
            hint, declared = _unwrapped(hints[name])
            if getattr(hint, DECLARED, _PLAIN).names == (FIELDS,):
                self.option_classes[name] = hint
                yield from _fields(name, hint)
                continue
            positional = parameter.kind is not parameter.KEYWORD_ONLY
            repeated = parameter.kind is parameter.VAR_POSITIONAL
            has_default = repeated or parameter.default is not parameter.empty
            value_type = _value_type(hint)._replace(repeated=True) if repeated else _value_type(hint)
            yield _argument(
                declared, value_type, owner=name, positional=positional, required=not has_default,
                help=declared.help or described.get(name, ""), group=declared.group,
            )  # fmt: skip


def _fields(owner: str, options: type) -> Iterator[Argument]:
    group: OptionGroup | None = getattr(options, DECLARED).group
    hints = get_type_hints(options, include_extras=True)
    for one in fields(options):
        hint, declared = _unwrapped(hints[one.name])
        required = one.default is MISSING and one.default_factory is MISSING
        yield _argument(
            declared, _value_type(hint), owner=owner, field=one.name, required=required,
            help=declared.help, group=declared.group or group,
        )  # fmt: skip


def _argument(declared: Parameter, value_type: ValueType, *, owner: str, **more: Any) -> Argument:
    plain = (more.get("field") or owner).strip("_").replace("_", "-")
    is_positional = bool(more.get("positional"))
    names = declared.names or (plain.upper() if is_positional else f"--{plain}",)
    negatives = _negatives(names, declared) if value_type.kind is bool and not is_positional else ()
    return Argument(
        owner=owner, names=names, negatives=negatives, type=value_type, show_choices=declared.show_choices,
        allow_leading_hyphen=declared.allow_leading_hyphen, **more,
    )  # fmt: skip


def _negatives(names: tuple[str, ...], declared: Parameter) -> tuple[str, ...]:
    if declared.negatives is not None:
        return declared.negatives
    return tuple(f"--no-{name[2:]}" for name in names if name.startswith("--"))


def _unwrapped(hint: Any) -> tuple[Any, Parameter]:
    """A type without its annotations, and the declaration among them."""
    declared = _PLAIN
    while get_origin(hint) is Annotated:
        found = [each for each in hint.__metadata__ if isinstance(each, Parameter)]
        declared, hint = found[-1] if found else declared, hint.__origin__
    return hint, declared


def _value_type(hint: Any) -> ValueType:
    """The type of the values of an option. Raises TypeError for one that has no text form."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType} and len(inner) == 2 and type(None) in inner:
        return _value_type(next(each for each in inner if each is not type(None)))
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return _value_type(inner[0])._replace(repeated=True)
    if origin is Literal and all(isinstance(each, str) for each in inner):
        return ValueType(str, inner)
    if hint not in KINDS:
        raise TypeError(f"an option of the command line cannot be {hint}")
    return ValueType(hint)


def _docstring(function: Callable[..., Any]) -> tuple[str, Mapping[str, str]]:
    """The help of a command, and that of its parameters."""
    text, _, section = (inspect.getdoc(function) or "").partition(_HEADING)
    described: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line.startswith(" "):
            described[name] = f"{described[name]} {line.strip()}".strip()
        elif line:
            name = line
            described[name] = ""
    return text.rstrip(), described
