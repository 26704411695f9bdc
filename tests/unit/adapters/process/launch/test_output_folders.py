"""The output folder of a kernel: created with its terms, and dated by its end."""

from __future__ import annotations

from pathlib import Path

from tests.unit.adapters.process.files.kernels import TERMS, Machine


def test_a_kernel_has_an_output_folder_only_with_terms(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel("k1")
    machine.kernel("k2", terms=None)
    assert machine.output("k1").is_dir()
    assert [one.name for one in machine.outputs.all()] == ["k1-1"]
    found = machine.outputs.one("k1-1")
    assert found is not None
    assert (found.session_id, found.terms, found.ended_ms, found.kept_until_ms) == ("s1", TERMS, None, None)
    assert machine.outputs.one("k2-1") is None


def test_what_was_dropped_adds_up_and_does_not_change_the_end(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel()
    machine.layout.discard("k1-1")
    machine.layout.note_end("k1-1", 7000)
    for _ in range(2):
        found = machine.outputs.one("k1-1")
        assert found is not None
        machine.outputs.note_dropped(found, 1, 10)
    found = machine.outputs.one("k1-1")
    assert found is not None
    assert (found.dropped_files, found.dropped_bytes, found.ended_ms) == (2, 20, 7000)


def test_a_lost_record_keeps_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel()
    machine.end(ended_ms=5)
    (machine.layout.outputs / "k1-1" / "record").unlink()
    found = machine.outputs.one("k1-1")
    assert found is not None
    assert found.kept_until_ms == 5
