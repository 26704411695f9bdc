"""Limits for the sizes of functions, classes and modules."""

import ast
from collections.abc import Iterator

from tools.tidy.definitions import (
    Definition,
    Function,
    classes,
    decorators,
    functions,
    is_protocol,
    method_names,
)
from tools.tidy.finding import Spot
from tools.tidy.layout import PLUGIN_FOLDERS
from tools.tidy.tree import PACKAGE, TESTS, TOOLS, SourceFile, Tree

FUNCTION_LINES = 60
MODULE_LINES = 500
PLUGIN_LINES = 100
PUBLIC_METHODS = 12
PROTOCOL_METHODS = 8
PARAMETERS = 6
IMPORTS = 20

_COMPOSITION_ROOTS = PACKAGE / "entrypoints"


def long_functions(tree: Tree) -> Iterator[Spot]:
    """Functions of more lines than the limit; the docstring does not count."""
    for file in tree.within(PACKAGE, TESTS, TOOLS):
        for definition, node in functions(file.syntax):
            lines = _lines_without_docstring(node)
            if lines > FUNCTION_LINES:
                yield _spot(file, definition, f"{definition.name} has {lines} lines, the limit is {FUNCTION_LINES}")


def long_modules(tree: Tree) -> Iterator[Spot]:
    """Modules of more lines than the limit."""
    for file in tree.within(PACKAGE, TESTS, TOOLS):
        if file.line_count > MODULE_LINES:
            yield Spot(str(file.path), 1, f"{file.line_count} lines, the limit is {MODULE_LINES}")


def long_plugins(tree: Tree) -> Iterator[Spot]:
    """Plugins of more lines than the limit; shared code belongs in base.py."""
    for file in tree.within(*PLUGIN_FOLDERS):
        if file.stem not in {"__init__", "base"} and file.line_count > PLUGIN_LINES:
            yield Spot(str(file.path), 1, f"{file.line_count} lines, the limit for a plugin is {PLUGIN_LINES}")


def wide_classes(tree: Tree) -> Iterator[Spot]:
    """Classes with more public methods than the limit, properties included."""
    for file in tree.within(PACKAGE, TOOLS):
        for definition, node in classes(file.syntax):
            count = sum(not name.startswith("_") for name in method_names(node))
            if count > PUBLIC_METHODS and not is_protocol(node):
                message = f"{definition.name} has {count} public methods, the limit is {PUBLIC_METHODS}"
                yield _spot(file, definition, message)


def wide_protocols(tree: Tree) -> Iterator[Spot]:
    """Protocols with more methods than the limit."""
    for file in tree.within(PACKAGE, TOOLS):
        for definition, node in classes(file.syntax):
            count = len(method_names(node))
            if count > PROTOCOL_METHODS and is_protocol(node):
                message = f"{definition.name} has {count} methods, the limit is {PROTOCOL_METHODS}"
                yield _spot(file, definition, message)


def many_parameters(tree: Tree) -> Iterator[Spot]:
    """Functions with more parameters than the limit, self and cls excluded."""
    for file in tree.within(PACKAGE, TOOLS):
        for definition, node in functions(file.syntax):
            count = _parameter_count(definition, node)
            if count > PARAMETERS:
                message = f"{definition.name} takes {count} parameters, the limit is {PARAMETERS}"
                yield _spot(file, definition, message)


def many_imports(tree: Tree) -> Iterator[Spot]:
    """Modules that import more other modules than the limit; composition roots are exempt."""
    known = tree.modules()
    for file in tree.within(PACKAGE, TOOLS):
        count = len(_imported_modules(file, known))
        if count > IMPORTS and not file.inside(_COMPOSITION_ROOTS):
            yield Spot(str(file.path), 1, f"imports {count} modules, the limit is {IMPORTS}")


def _spot(file: SourceFile, definition: Definition, message: str) -> Spot:
    return Spot(str(file.path), definition.node.lineno, message, definition.name)


def _lines_without_docstring(node: Function) -> int:
    return _line_span(node) - (_line_span(node.body[0]) if ast.get_docstring(node) is not None else 0)


def _line_span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _parameter_count(definition: Definition, node: Function) -> int:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    is_bound = definition.owner is not None and "staticmethod" not in decorators(node)
    return len(named) + len(starred) - is_bound


def _imported_modules(file: SourceFile, known: frozenset[str]) -> frozenset[str]:
    """Each module by its own name, so that `from package import a, b` counts two."""
    imported: set[str] = set()
    for node in ast.walk(file.syntax):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            module = node.module or "."
            names = {f"{module}.{alias.name}" for alias in node.names}
            imported.update(names & known)
            imported.update({module} if names - known else ())
    return frozenset(imported)
