"""Functions and classes of a parsed module, with their qualified names."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """A function or class, its qualified name, and the class that contains it."""

    name: str
    node: Function | ast.ClassDef
    owner: ast.ClassDef | None

    @property
    def is_public(self) -> bool:
        """Whether no part of the qualified name starts with an underscore."""
        return not any(part.startswith("_") for part in self.name.split("."))


@functools.cache  # several rules look at the same modules
def definitions(node: ast.AST) -> tuple[Definition, ...]:
    """All functions and classes in `node`, nested ones included."""
    return tuple(_definitions(node, "", None))


def _definitions(node: ast.AST, prefix: str, owner: ast.ClassDef | None) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = prefix + child.name
            yield Definition(name, child, owner)
            yield from _definitions(child, f"{name}.", child if isinstance(child, ast.ClassDef) else None)
        elif not isinstance(child, ast.expr):  # an expression defines nothing
            yield from _definitions(child, prefix, owner)


def functions(node: ast.AST) -> Iterator[tuple[Definition, Function]]:
    """The functions and methods among the definitions."""
    for definition in definitions(node):
        if not isinstance(definition.node, ast.ClassDef):
            yield definition, definition.node


def classes(node: ast.AST) -> Iterator[tuple[Definition, ast.ClassDef]]:
    """The classes among the definitions."""
    for definition in definitions(node):
        if isinstance(definition.node, ast.ClassDef):
            yield definition, definition.node


def method_names(node: ast.ClassDef) -> frozenset[str]:
    """The methods of a class; overloads and setters count once."""
    return frozenset(d.node.name for d, _ in functions(node) if "." not in d.name)


def decorators(node: Function) -> frozenset[str]:
    """The last name of each decorator, so `@abc.abstractmethod` is `abstractmethod`."""
    return frozenset(last_word(decorator) for decorator in node.decorator_list)


def is_protocol(node: ast.ClassDef) -> bool:
    """Whether a class derives from `typing.Protocol` directly."""
    return any(last_word(base) == "Protocol" for base in node.bases)


def last_word(expression: ast.expr) -> str:
    """`Protocol` of `typing.Protocol[T]`; empty if there is no name."""
    match expression:
        case ast.Name(id=word) | ast.Attribute(attr=word):
            return word
        case ast.Subscript(value=inner) | ast.Call(func=inner):
            return last_word(inner)
        case _:
            return ""
