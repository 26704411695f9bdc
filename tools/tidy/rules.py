"""The table of all rules, and the one way to run it."""

from collections.abc import Iterator
from dataclasses import dataclass

from tools.tidy import architecture, calls, layout, prose, sizes
from tools.tidy.finding import Finding, Rule, Spot
from tools.tidy.tree import WAIVERS, Tree
from tools.tidy.waivers import apply_waivers


@dataclass(frozen=True)
class Report:
    """What stands after the waivers, in the order of paths and lines."""

    findings: tuple[Finding, ...]
    waived: int


def unparsed(tree: Tree) -> Iterator[Spot]:
    """Files that are not Python; no other rule can look into them."""
    for file in tree.files:
        if file.error:
            yield Spot(str(file.path), file.error.lineno or 1, file.error.msg)


RULES = (
    Rule("syntax", "tidy reads only files that parse", unparsed),
    Rule("function-length", "split it by what it does", sizes.long_functions),
    Rule("module-length", "split it by what it is about", sizes.long_modules),
    Rule("plugin-length", "move what plugins share to base.py", sizes.long_plugins),
    Rule("public-methods", "find the second class in it", sizes.wide_classes),
    Rule("protocol-methods", "split the port by who calls it", sizes.wide_protocols),
    Rule("parameters", "group those that travel together in a dataclass", sizes.many_parameters),
    Rule("import-count", "find the module that wants to come between", sizes.many_imports),
    Rule("depth", "move the folder up", layout.deep_folders),
    Rule("folder-files", "make it a module of the folder above", layout.thin_folders),
    Rule("file-name", "name it for the noun it is about", layout.bad_names),
    Rule("mirror", "src/sokovan/a/x.py and tests/unit/a/test_x.py come and go together", layout.unmirrored),
    Rule("architecture", "one paragraph of its own for each top folder", architecture.undescribed_folders),
    Rule("docstring", "say it in one short sentence, the rest below", prose.long_summaries),
    Rule(
        "noqa-reason",
        "write `# noqa: CODE  # why` or `# type: ignore[code]  # why`",
        prose.silent_suppressions,
    ),
    Rule("unsafe-call", "pass a list of arguments; load with yaml.safe_load", calls.unsafe_calls),
)


def check(tree: Tree) -> Report:
    """Every rule over the tree, less what is waived."""
    found = [Finding(spot, rule.name, rule.hint) for rule in RULES for spot in rule.find(tree)]
    standing, waived = apply_waivers(tree.documents.get(WAIVERS, ""), found)
    return Report(tuple(sorted(standing)), waived)
