"""Reads scenario files: every value knows its file, line, scenario and key."""

from __future__ import annotations

import textwrap

import pytest

from sokovan.simulator import documents
from sokovan.simulator.documents import InvalidScenario, ScenarioLocation, ScenarioValue, read_documents


def value(text: str) -> ScenarioValue:
    """The value under the key x of a document."""
    [document] = read_documents(f"x: {text}\n", "f.yaml")
    return document.mapping()["x"]


def test_every_document_of_a_file_is_read_and_empty_ones_are_passed_over() -> None:
    found = list(read_documents("---\na: 1\n---\n---\nb: 2\n", "f.yaml"))
    assert [document.plain() for document in found if document.content] == [{"a": 1}, {"b": 2}]


def test_an_empty_file_holds_nothing() -> None:
    assert list(read_documents("# only a comment\n", "f.yaml")) == []


def test_every_value_knows_its_file_its_line_its_scenario_and_its_key() -> None:
    text = textwrap.dedent("""\
        scenario: demo
        agents:
          n1:
            slots: {cpu: 1}
          n2: [x,
               {deep: y}]
    """)
    [document] = read_documents(text, "f.yaml")
    agents = document.mapping()["agents"].mapping()
    assert agents["n1"].mapping()["slots"].mapping()["cpu"].location == ScenarioLocation(
        "f.yaml", 4, "demo", "agents.n1.slots.cpu"
    )
    deep = agents["n2"].sequence()[1].mapping()["deep"]
    assert deep.location == ScenarioLocation("f.yaml", 6, "demo", "agents.n2[1].deep")


def test_an_error_names_file_line_scenario_and_key() -> None:
    error = ScenarioLocation("f.yaml", 7, "demo", "agents.n1").error("is odd", hint="make it even")
    assert (error.where, error.key, error.problem) == ("f.yaml:7: scenario 'demo'", "agents.n1", "is odd")
    assert str(error) == "f.yaml:7: scenario 'demo': agents.n1: is odd\n  hint: make it even [invalid-scenario]"
    assert ScenarioLocation("f.yaml", 1).error("is odd").message == "f.yaml:1: is odd"


def test_values_are_read_by_their_type() -> None:
    assert value("hello").text() == "hello"
    assert value("12").text() == "12"
    assert value("12").number(least=12) == 12
    assert value("true").flag() is True
    assert [item.plain() for item in value("[1, {a: b}]").sequence()] == [1, {"a": "b"}]
    assert value("{a: [1]}").plain() == {"a": [1]}


def test_nothing_counts_as_an_empty_mapping_and_as_an_empty_list() -> None:
    assert value("").mapping() == {}
    assert value("").sequence() == []


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("[1]", "mapping", "must be a mapping, not [1]"),
        ("{a: 1}", "sequence", "must be a list, not {'a': 1}"),
        ("true", "text", "must be a string, not True"),
        ("1.5", "text", "must be a string, not 1.5"),
        ("", "text", "must be a string, not None"),
        ("true", "number", "must be a whole number, not True"),
        ("'1'", "number", "must be a whole number, not '1'"),
        ("1", "flag", "must be true or false, not 1"),
    ],
)
def test_a_value_of_another_type_is_refused_and_quoted(text: str, kind: str, problem: str) -> None:
    with pytest.raises(InvalidScenario) as refused:
        getattr(value(text), kind)()
    assert refused.value.problem == problem


def test_a_number_below_its_least_is_refused() -> None:
    with pytest.raises(InvalidScenario, match="must be 3 or more, not 2"):
        value("2").number(least=3)


def test_an_unknown_key_is_refused_with_the_keys_that_are_known() -> None:
    with pytest.raises(InvalidScenario, match="known here are beta, gamma") as refused:
        value("{beta: 1, alpha: 2}").items(("gamma", "beta"))
    assert refused.value.key == "x.alpha"


def test_keys_are_texts_as_they_are_written() -> None:
    assert list(value("{1: a, true: b, 0x10: c, null: d}").mapping()) == ["1", "true", "0x10", "null"]


def test_an_alias_is_read_as_a_copy() -> None:
    [document] = read_documents("a: &x {cpu: 1}\nb: *x\n", "f.yaml")
    assert document.plain() == {"a": {"cpu": 1}, "b": {"cpu": 1}}


def test_every_alias_counts_all_of_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "NODES_MAX", 50)
    with pytest.raises(InvalidScenario, match="holds more than 50 values"):
        list(read_documents("a: &a [1, 2, 3, 4, 5, 6]\nb: [*a, *a, *a, *a, *a, *a, *a]\n", "f.yaml"))


def test_a_text_beyond_the_limit_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "TEXT_MAX", 10)
    with pytest.raises(InvalidScenario, match="is larger than 10 characters"):
        list(read_documents("a: 'this is not closed", "f.yaml"))
