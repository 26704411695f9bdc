"""Violations of the rules about vocabulary: names of modules and classes, words of docstrings and help texts."""

from tests.architecture.violations import (
    ARCHITECTURE,
    DOMAIN,
    GLOSSARY,
    IN_CLASS,
    PLAN,
    PROSE,
    SLOTS,
    TOOL,
    VALIDATORS,
    Case,
    Edit,
    case,
    gone,
    package,
)

COMMAND = "src/sokovan/cli/commands/run.py"
COMMANDS = package("src/sokovan/cli/commands", "run", "ps", "whoami")
CLI = {
    **COMMANDS,
    "ARCHITECTURE.md": f"{ARCHITECTURE}\n`cli/` {PROSE}\n",
    "docs/glossary.md": GLOSSARY.replace("**route**", "**cli**, **command**"),
}
WHAT_OPENING = '"""What is known of those that live."""\n'
PLAIN_OPENING = '"""Caches live sessions."""\n'


def glossary(old: str, new: str) -> dict[str, str]:
    """docs/glossary.md with one piece of text replaced."""
    assert old in GLOSSARY
    return {"docs/glossary.md": GLOSSARY.replace(old, new)}


VOCABULARY_CASES = [
    Case(
        "module-name",
        "that the glossary does not have",
        package(DOMAIN, "workshop_slots"),
        f"{DOMAIN}/workshop_slots.py:1: module-name: not in the glossary: workshop",
        glossary("- **entrypoints**", "- **workshop**: a place of work.\n- **entrypoints**"),
    ),
    Case(
        "module-name",
        "of a package",
        package(f"{DOMAIN}/workshop", "x", "y", "z"),
        f"{DOMAIN}/workshop:1: module-name: not in the glossary: workshop",
        glossary("**many**", "**many**, **Workshop**"),
    ),
    Case(
        "module-name",
        "without a glossary",
        {"docs/glossary.md": None, "docs/README.md": ""},
        "docs/glossary.md:1: module-name: there is no glossary",
        {"docs/glossary.md": GLOSSARY},
    ),
    Case(
        "module-name",
        "but not of commands, plugins and numbers of migrations",
        {**package(DOMAIN, "v0001_other"), **CLI, **VALIDATORS},
        f"{DOMAIN}/v0001_other.py:1: module-name: not in the glossary: other",
        {**gone(package(DOMAIN, "v0001_other")), **package(DOMAIN, "v0001_slots", "slot", "hypernode", "hyper_nodes")},
    ),
    Case(
        "glossary",
        "that names a module which does not exist",
        glossary("`domain.slots`", "`domain.slots`, `domain.workshop`"),
        "docs/glossary.md:3: glossary: there is no module sokovan.domain.workshop",
        glossary("`domain.slots`", "`domain.slots`, `domain`"),
    ),
    Case(
        "glossary",
        "with a word that no module name has",
        glossary("- **entrypoints**", "- **cache**: a copy.\n- **entrypoints**"),
        "docs/glossary.md:11: glossary: no module name has the word 'cache'",
        package(DOMAIN, "slot_cache"),
    ),
    Case(
        "class-name",
        "that is defined twice",
        {SLOTS: IN_CLASS + "    pass\n", PLAN: IN_CLASS + "    pass\n"},
        f"{PLAN}:1: class-name: class Thing is defined in {SLOTS} too",
        {SLOTS: "class _Thing:\n    pass\n", PLAN: "class _Thing:\n    pass\nclass Thing:\n    pass\n"},
    ),
    case("plain-words", "in an opening", Edit(SLOTS, WHAT_OPENING, PLAIN_OPENING), "1: plain-words: 'What' in"),
    case("plain-words", "in tools", Edit(TOOL, WHAT_OPENING, PLAIN_OPENING), "1: plain-words: 'What' in"),
    case(
        "plain-words",
        "in any line of a docstring",
        Edit(
            SLOTS,
            'def work():\n    """Wakes.\n\n    Nobody waits."""\n',
            'def work():\n    """Wakes.\n\n    No caller waits. The unwished milestone is whatever."""\n',
        ),
        "1: plain-words: 'Nobody' in 'Wakes.'",
    ),
    *(
        case(
            "plain-words",
            f"in {what}",
            Edit(SLOTS, violation, "x = 'mend the plugin'  # repaired\n"),
            f"{line}: plain-words: 'mend' in",
        )
        for what, line, violation in [
            ("a hint of a class", 2, "class Thing:\n    hint = 'mend the plugin'\n"),
            ("a hint of a call", 1, "raise Refused(f'no {x}', hint=f'mend {x}')\n"),
            ("a help text", 1, "Parameter(help='mend the ' + PLUGIN)\n"),
            ("a problem", 1, "Problem(field, problem='mend the plugin')\n"),
            ("a comment", 2, "x = 'plugin'\n# Callers mend it.\n"),
            ("a comment behind code", 1, "x = 'plugin'  # mend it\n"),
        ]
    ),
    case(
        "plain-words",
        "in the opening of a comment",
        Edit(SLOTS, "# What is left.\nx = 1\n", "# The rest of\n# What is left.\nx = 1  # Where it is\n"),
        "1: plain-words: '# What' in",
    ),
    Case(
        "plain-words",
        "in any sentence of the command line",
        {**CLI, COMMAND: "MESSAGE = 'nobody answers'\n"},
        f"{COMMAND}:1: plain-words: 'nobody' in 'nobody answers'",
        {COMMAND: '"""The run command."""\nMESSAGE = \'nobody\'\n'},
    ),
]
