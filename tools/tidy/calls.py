"""Calls that ruff does not know: unsafe ones everywhere, and those through an object in the orchestrator."""

import ast
from collections.abc import Iterator

from tools.tidy.finding import Spot
from tools.tidy.tree import PACKAGE, TOOLS, Tree

ORCHESTRATOR = PACKAGE / "orchestrator"

UNSAFE_NAMES = {
    "create_subprocess_shell": "starts a shell",
    "subprocess_shell": "starts a shell",
    "unsafe_load": "lets YAML build any object",
    "full_load": "lets YAML build more than plain values",
    "marshal": "can crash or run code on foreign input",
    "cloudpickle": "uses pickle",
    "jsonpickle": "uses pickle",
}

# Methods that only read a mapping.
READS = frozenset({"get", "items", "keys", "values"})


def reaching_calls(tree: Tree) -> Iterator[Spot]:
    """Calls like `self.a.b.do()`, which depend on what another object consists of."""
    for file in tree.within(ORCHESTRATOR):
        for node in ast.walk(file.syntax):
            match node:
                case ast.Call(func=ast.Attribute(attr=method, value=ast.Attribute(value=ast.Attribute()) as owner)) if (
                    method not in READS and ast.unparse(owner).startswith("self.")
                ):
                    yield Spot(
                        str(file.path), node.lineno, f"{ast.unparse(owner)}.{method}() reaches through an object"
                    )


def unsafe_calls(tree: Tree) -> Iterator[Spot]:
    """Imports and uses of a name in the table."""
    for file in tree.within(PACKAGE, TOOLS):
        for node in ast.walk(file.syntax):
            for name in sorted(UNSAFE_NAMES.keys() & _names_used(node)):
                line = getattr(node, "lineno", 1)
                yield Spot(str(file.path), line, f"{name} {UNSAFE_NAMES[name]}", name)


def _names_used(node: ast.AST) -> frozenset[str]:
    match node:
        case ast.Attribute(attr=name):
            return frozenset({name})
        case ast.Import(names=aliases):
            return frozenset(alias.name.partition(".")[0] for alias in aliases)
        case ast.ImportFrom(module=module, names=aliases):
            return frozenset({(module or "").partition(".")[0], *(alias.name for alias in aliases)})
        case _:
            return frozenset()
