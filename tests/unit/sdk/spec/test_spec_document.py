"""A session request with its document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.sdk.spec.session_spec import read_spec_documents
from sokovan.sdk.spec.spec_document import SpecDocument
from sokovan.wire.api.sessions import SessionBody
from sokovan.wire.api.system import FieldProblem

TEXT = """apiVersion: sokovan/v1
kind: Session
run: python train.py
resources:
  gpu: 2
  memm: 64MiB
mounts:
  - /a:/b
  - source: /c
    target: /d
    readOnly: true
timeLimit: 5x
groups:
  - name: a
    size: 0
dependsOn: [x, y]
"""


@pytest.fixture
def written() -> SpecDocument[SessionBody]:
    [found] = read_spec_documents(TEXT, "f.yaml")
    return found


@pytest.mark.parametrize(
    ("where", "line", "column"),
    [
        ("command/0", 3, 6),
        ("resources/cuda.device", 5, 8),
        ("resources", 5, 3),
        ("mounts/0/source", 8, 5),
        ("mounts/1/read_only", 11, 15),
        ("mounts/7", 8, 3),
        ("time_limit", 12, 12),
        ("groups/0/size", 15, 11),
        ("depends_on/1", 16, 16),
        ("queue", 1, 1),
    ],
)
def test_a_path_of_the_wire_type_has_a_position(
    written: SpecDocument[SessionBody], where: str, line: int, column: int
) -> None:
    position = written.position(where.split("/"))
    assert (position.line, position.column) == (line, column)


def test_every_problem_is_shown_with_its_position(written: SpecDocument[SessionBody]) -> None:
    problems = [FieldProblem(where="time_limit", problem="is not a duration"), FieldProblem(where="queue", problem="?")]
    assert written.describe(problems, written.body).splitlines() == [
        "f.yaml:12:12: time_limit: is not a duration",
        "  | timeLimit: 5x",
        "  |            ^",
        "f.yaml:1:1: queue: ?",
        "  | apiVersion: sokovan/v1",
        "  | ^",
    ]


def test_a_value_overridden_by_an_option_has_no_position(written: SpecDocument[SessionBody]) -> None:
    sent = replace(written.body, time_limit="7x")
    assert written.describe([FieldProblem(where="time_limit", problem="is odd")], sent) == "time_limit: is odd"


@pytest.mark.parametrize(("slot", "meant"), [("memm", "; did you mean 'mem'?"), ("cpu", ""), ("licenses", "")])
def test_a_mistyped_slot_gets_a_suggestion(written: SpecDocument[SessionBody], slot: str, meant: str) -> None:
    shown = written.describe([FieldProblem(where=f"resources/{slot}", problem="is odd")], written.body)
    assert f"resources/{slot}: is odd{meant}\n" in shown
