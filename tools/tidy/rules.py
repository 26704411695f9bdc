"""The table of all rules, and the function that runs them."""

from collections.abc import Iterator
from dataclasses import dataclass

from tools.tidy import architecture, calls, layout, prose, sizes, vocabulary
from tools.tidy.finding import Finding, Rule, Spot
from tools.tidy.tree import WAIVERS, Tree
from tools.tidy.waivers import apply_waivers


@dataclass(frozen=True)
class Report:
    """The findings that are not waived, ordered by path and line."""

    findings: tuple[Finding, ...]
    waived: int


def unparsed(tree: Tree) -> Iterator[Spot]:
    """Files that do not parse; the other rules skip them."""
    for file in tree.files:
        if file.error:
            yield Spot(str(file.path), file.error.lineno or 1, file.error.msg)


RULES = (
    Rule("syntax", "tidy reads only files that parse", unparsed),
    Rule("function-length", "split it by what it does", sizes.long_functions),
    Rule("module-length", "split it by what it is about", sizes.long_modules),
    Rule("plugin-length", "move shared code to base.py", sizes.long_plugins),
    Rule("public-methods", "split it in two", sizes.wide_classes),
    Rule("protocol-methods", "split the port by who calls it", sizes.wide_protocols),
    Rule("parameters", "group those that travel together in a dataclass", sizes.many_parameters),
    Rule("import-count", "split it, or put a module in between", sizes.many_imports),
    Rule("depth", "move the folder up", layout.deep_folders),
    Rule("folder-files", "make it a module of the folder above", layout.thin_folders),
    Rule("folder-width", "group modules that belong together in a folder", layout.wide_folders),
    Rule("file-name", "name it for the noun it is about", layout.bad_names),
    Rule("mirror", "src/sokovan/a/x.py and tests/unit/a/test_x.py come and go together", layout.unmirrored),
    Rule(
        "module-name",
        "use the glossary's words, or add the word and its meaning to docs/glossary.md",
        vocabulary.unknown_module_names,
    ),
    Rule("glossary", "remove or correct the entry", vocabulary.stale_glossary),
    Rule("class-name", "one term per thing: rename one of them", vocabulary.repeated_classes),
    Rule("plain-words", "use the field's term, subject first", vocabulary.mannered_texts),
    Rule("architecture", "one paragraph of its own for each top folder", architecture.undescribed_folders),
    Rule("docstring", "say it in one short sentence, the rest below", prose.long_summaries),
    Rule(
        "noqa-reason",
        "write `# noqa: CODE  # why` or `# type: ignore[code]  # why`",
        prose.silent_suppressions,
    ),
    Rule("reach-through", "bind it in __init__, or give its owner a method", calls.reaching_calls),
    Rule("unsafe-call", "pass a list of arguments; load with yaml.safe_load", calls.unsafe_calls),
)


def check(tree: Tree) -> Report:
    """Run every rule over the tree and drop waived findings."""
    found = [Finding(spot, rule.name, rule.hint) for rule in RULES for spot in rule.find(tree)]
    remaining, waived = apply_waivers(tree.documents.get(WAIVERS, ""), found)
    return Report(tuple(sorted(remaining)), waived)
