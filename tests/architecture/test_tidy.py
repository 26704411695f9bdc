"""Each rule of tidy finds its violation in a small tree, and nothing once it is fixed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.tiny_tree import ruff_codes, run_tool, write_package, write_tree
from tests.architecture.violations import (
    CASES,
    LONG_DOC,
    PLAN,
    SEVEN,
    SLOTS,
    TEST,
    TIDY,
    TWENTY_ONE,
    Case,
    function,
    klass,
)
from tests.architecture.vocabulary_violations import VOCABULARY_CASES
from tools.tidy.__main__ import main
from tools.tidy.rules import RULES, check
from tools.tidy.tree import read_tree

ALL_CASES = [*CASES, *VOCABULARY_CASES]


def apply(root: Path, changes: Mapping[str, str | None]) -> None:
    """Write the changed files, and remove those that are None."""
    write_tree(root, {path: text for path, text in changes.items() if text is not None})
    for path in (path for path, text in changes.items() if text is None):
        (root / path).unlink()
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def waiver(rule: str, path: str, reason: str = "the table reads better whole", **more: str) -> str:
    """A waiver as it is written in tidy-waivers.toml."""
    pairs = {"rule": rule, "path": path, "reason": reason, **more}
    return "[[waiver]]\n" + "".join(f'{key} = "{value}"\n' for key, value in pairs.items())


def findings(root: Path) -> list[str]:
    """The findings of tidy in the tree."""
    return [str(finding) for finding in check(read_tree(root)).findings]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree that violates no rule."""
    return write_tree(tmp_path, TIDY)


def test_the_small_tree_violates_no_rule(tree: Path) -> None:
    assert findings(tree) == []


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in ALL_CASES} == {rule.name for rule in RULES}


def test_a_call_that_reads_a_mapping_or_is_one_of_a_value_does_not_reach_through(tree: Path) -> None:
    calls = "class _One:\n    def two(self, a):\n        self._a.b.get(1)\n        a.b.c.do()\n        self._b.do()\n"
    apply(tree, {"src/sokovan/orchestrator/one.py": calls})
    assert [line for line in findings(tree) if "reach-through" in line] == []


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: f"{case.rule} {case.what}")
def test_a_violation_is_found_and_a_fixed_tree_passes(tree: Path, case: Case) -> None:
    apply(tree, case.violation)
    found = findings(tree)
    assert [line for line in found if f" {case.rule}: " in line and case.message in line], found
    apply(tree, case.fixed)
    assert findings(tree) == []


@pytest.mark.parametrize(
    "text",
    [klass(13), f"def work({SEVEN}): ...", TWENTY_ONE, f'"""{LONG_DOC}"""\n', "yaml.full_load('')\n"],
)
def test_a_test_file_has_only_length_names_and_reasons_to_mind(tree: Path, text: str) -> None:
    apply(tree, {TEST: text})
    assert findings(tree) == []


SUPPRESSED = '''"""A noun."""

WORDS: int = eval("'one'" * 2)  # noqa: S307  # the reason that tidy asks for
COUNT: int = "one"  # type: ignore[assignment]  # the reason that tidy asks for
BOTH: int = str(eval("1"))  # type: ignore[assignment]  # noqa: S307  # the reason that tidy asks for
'''


def test_the_form_of_a_reason_that_tidy_asks_for_is_read_by_ruff_and_by_mypy(tmp_path: Path) -> None:
    write_package(tmp_path, {"sokovan/domain/slots.py": SUPPRESSED})
    assert not [line for line in findings(tmp_path) if "noqa-reason" in line]
    assert SLOTS not in ruff_codes(tmp_path)
    outcome = run_tool(tmp_path, "mypy", "--cache-dir", str(tmp_path / "cache"), SLOTS)
    assert (outcome.exit_code, outcome.output) == (0, "Success: no issues found in 1 source file\n")


LONG = {SLOTS: function(61)}
LONG_WAIVED = waiver("function-length", SLOTS)


@pytest.mark.parametrize("name", [{}, {"name": "work"}], ids=["by path", "by path and name"])
def test_a_waiver_with_a_reason_lets_its_finding_through(tree: Path, name: dict[str, str]) -> None:
    apply(tree, {**LONG, "tidy-waivers.toml": waiver("function-length", SLOTS, **name)})
    report = check(read_tree(tree))
    assert (report.findings, report.waived) == ((), 1)


@pytest.mark.parametrize(
    "missing",
    [
        waiver("module-length", SLOTS),
        waiver("function-length", PLAN),
        waiver("function-length", SLOTS, name="rest"),
        waiver("no-such-rule", SLOTS),
        waiver("waivers", "tidy-waivers.toml"),
    ],
)
def test_a_waiver_that_matches_nothing_is_stale(tree: Path, missing: str) -> None:
    apply(tree, {**LONG, "tidy-waivers.toml": f"{LONG_WAIVED}\n{missing}"})
    [found] = findings(tree)
    assert found.startswith("tidy-waivers.toml:6: waivers: stale, no ")


def test_a_waiver_is_stale_once_its_finding_is_fixed(tree: Path) -> None:
    apply(tree, {"tidy-waivers.toml": LONG_WAIVED})
    [found] = findings(tree)
    assert found.startswith(f"tidy-waivers.toml:1: waivers: stale, no function-length finding at {SLOTS}")


@pytest.mark.parametrize("reason", ["", "too long", "fourteen chars", "              "])
def test_a_waiver_without_a_reason_is_refused(tree: Path, reason: str) -> None:
    apply(tree, {**LONG, "tidy-waivers.toml": waiver("function-length", SLOTS, reason)})
    [found] = findings(tree)
    assert found.startswith("tidy-waivers.toml:1: waivers: the reason has fewer than 15 characters")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[waiver]", "tidy-waivers.toml:1: waivers: not TOML"),
        ("[waiver]\nrule = 'depth'", "tidy-waivers.toml:1: waivers: only [[waiver]] tables"),
        ("all = true", "tidy-waivers.toml:1: waivers: only [[waiver]] tables"),
        ("[[waiver]]\nrule = 'depth'", "tidy-waivers.toml:1: waivers: a waiver has path, reason, rule"),
        (f"{LONG_WAIVED}lines = '70'", "tidy-waivers.toml:1: waivers: a waiver has path, reason, rule"),
        (f"{LONG_WAIVED}\n[[waiver]]\nrule = 7", "tidy-waivers.toml:6: waivers: a waiver has path"),
    ],
)
def test_a_waiver_file_in_another_form_waives_nothing(tree: Path, text: str, message: str) -> None:
    apply(tree, {**LONG, "tidy-waivers.toml": text})
    assert [line for line in findings(tree) if line.startswith(message)]
    assert [line for line in findings(tree) if "function-length" in line]


def test_the_command_prints_one_line_for_each_finding_and_exits_1(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(tree, {**LONG, PLAN: "#\n" * 501})
    assert main([str(tree)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{SLOTS}:1: function-length: work has 61 lines, the limit is 60 (split it by what it does)",
        f"{PLAN}:1: module-length: 501 lines, the limit is 500 (split it by what it is about)",
    ]


def test_the_command_says_in_one_line_that_nothing_was_found(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tree)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("tidy: ")


def test_the_command_refuses_a_folder_that_is_not_the_repository(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path)])
