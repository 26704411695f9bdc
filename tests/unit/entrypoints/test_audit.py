"""An audit of the store that a user names is read-only."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.sql.invariants.auditor import INVARIANTS
from sokovan.adapters.sql.migration import SchemaMismatch
from sokovan.entrypoints.audit import UnknownInvariant, audited, chosen
from sokovan.entrypoints.database import StoreMissing
from tests.unit.entrypoints.little_store import little_store, names_in, overcharge, take_back


@pytest.mark.slow
def test_a_consistent_store_satisfies_all_invariants(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    report = audited(f"sqlite:///{path}")
    assert report.holds
    assert report.store == f"sqlite:///{path}"
    assert [finding.invariant for finding in report.findings] == list(INVARIANTS)


@pytest.mark.slow
def test_an_audit_changes_nothing(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    before = path.read_bytes()
    audited(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert names_in(tmp_path) == {"state.db"}


@pytest.mark.slow
def test_a_violated_invariant_is_found(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    overcharge(path)
    report = audited(f"sqlite:///{path}")
    assert not report.holds
    [broken] = [finding for finding in report.findings if not finding.holds]
    assert (broken.invariant.id, broken.count) == ("I1", 1)
    assert broken.rows[0].row == {"agent_id": "a1", "slot": "cpu", "kept": 1007, "counted": 1000}


@pytest.mark.slow
def test_only_the_requested_invariants_count(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    overcharge(path)
    assert audited(f"sqlite:///{path}", only=["I7", "I29"]).holds


@pytest.mark.slow
def test_an_old_schema_is_not_audited_and_not_touched(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    take_back(path, "0003")
    before = path.read_bytes()
    with pytest.raises(SchemaMismatch, match="at revision 0003") as refused:
        audited(f"sqlite:///{path}")
    assert "sokovan db upgrade" in refused.value.hint
    assert path.read_bytes() == before


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        audited(f"sqlite:///{tmp_path}/none.db")
    assert names_in(tmp_path) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("I1", ["I1"]), ("I1,I7", ["I1", "I7"]), (" i29 , i2 ,", ["I29", "I2"]), ("I1,I1", ["I1", "I1"])],
)
def test_invariants_are_named_in_a_list(text: str, expected: list[str]) -> None:
    assert chosen(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I77", "there is no invariant 'I77'; did you mean I17, I7?"),
        ("I1,slots", "there is no invariant 'SLOTS'"),
        (
            "I3",
            "I3 cannot be checked from the store: no physical overcommit: the store does not have what runs on hosts",
        ),
        ("", "name at least one invariant"),
        (" , ", "name at least one invariant"),
    ],
)
def test_an_unknown_invariant_is_refused_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(UnknownInvariant) as refused:
        chosen(text)
    assert refused.value.message == message
    assert "known invariants: I1, I2, I5" in refused.value.hint
