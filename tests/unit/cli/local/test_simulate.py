"""`sokovan simulate`: what it prints, and with which exit status it ends."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from sokovan.cli.local.simulate import simulate
from sokovan.simulator import documents
from tests.unit.simulator.malformed import MALFORMED, Malformed

MET = """\
scenario: all is well
agents: {n1: {slots: {cpu: 2}}, n2: {slots: {cpu: 2}, arch: aarch64}}
sessions:
  fits: {kernels: {k1: {slots: {cpu: 1}}}}
  gang: {kernels: {k2: {slots: {cpu: 1.5}}, k3: {slots: {cpu: 1.5}}}}
  last: {kernels: {k4: {slots: {cpu: 1.5}}}}
expect: {placed: {k1: n1}, pending: [gang, last]}
"""
UNMET = MET.replace("all is well", "all is not well").replace("k1: n1}", "k1: n2}")


def run(*files: str, **flags: Any) -> int:
    """The exit status of the command."""
    return simulate(list(files), **{"json": False, "explain": False, "snapshot": False, "save": None, **flags})


def written(folder: Path, text: str, name: str = "f.yaml") -> str:
    """The path of a file with this text."""
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_expectations_that_hold_end_with_0_and_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(written(tmp_path, MET)) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["RESULT  PLACED  WAITING  SCENARIO", "ok      1       2        all is well"]
    assert err == "1 ok, 0 failed\n"


def test_an_unmet_expectation_ends_with_1_and_prints_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, f"{MET}---\n{UNMET}")
    assert run(file) == 1
    out, err = capsys.readouterr()
    assert "FAIL    1       2        all is not well" in out
    assert f"{file}:9: all is not well\n  differs  placed: k1 is on n1, expected n2" in out
    assert err == "1 ok, 1 failed\n"


def test_evictions_are_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
        scenario: s
        profile: {actions: [allocate, preempt]}
        agents: {n1: {slots: {cpu: 1}}}
        sessions:
          low: {kernels: {k1: {slots: {cpu: 1}, at: n1}}}
          high: {priority: 1, kernels: {k2: {slots: {cpu: 1}}}}
    """
    assert run(written(tmp_path, textwrap.dedent(text)), json=True) == 0
    [outcome] = json.loads(capsys.readouterr().out)
    assert (outcome["evicted"], outcome["reserved"]) == (["k1"], {"high": ["n1"]})


def test_a_profile_with_an_unknown_plugin_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written(tmp_path, "scenario: s\nprofile: {sequencer: nope}\n")) == 2
    assert "known are deadline, drf, fair-share, fifo, lifo, multifactor" in capsys.readouterr().err


@pytest.mark.parametrize("row", MALFORMED, ids=lambda row: row.what)
def test_a_malformed_scenario_ends_with_2_and_names_the_place(
    row: Malformed, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "NODES_MAX", 1000)
    file = written(tmp_path, row.text)
    assert run(file) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {file}:{row.line}: ")
    assert f"{row.key}: " in err
    assert err.endswith("[invalid-scenario]\n")


def test_a_missing_file_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path / "missing.yaml")) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_with_json_standard_output_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, UNMET)
    assert run(file, json=True) == 1
    out, err = capsys.readouterr()
    assert err == ""
    [outcome] = json.loads(out)
    assert outcome == {
        "scenario": "all is not well",
        "file": file,
        "line": 1,
        "ok": False,
        "differences": ["placed: k1 is on n1, expected n2"],
        "placed": {"k1": "n1"},
        "reserved": {},
        "evicted": [],
        "waiting": {"gang": "NEVER_FITS", "last": "NOT_ENOUGH_FREE"},
    }


def test_a_file_without_a_scenario_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written(tmp_path, "# nothing\n"), json=True) == 2
    assert "has no scenario" in json.loads(capsys.readouterr().err)["message"]


def test_with_json_an_error_is_an_object_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written(tmp_path, "colour: red\n"), json=True) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["code"] == "invalid-scenario"


def test_explain_prints_every_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written(tmp_path, MET), explain=True) == 0
    out = capsys.readouterr().out
    assert "  fits  PLACED  NOTHING" in out
    assert "  gang  NEVER_FITS  CHANGE" in out
    assert "  last  NOT_ENOUGH_FREE  WAIT" in out
    assert "funnel: agents 2 → alive 2 → architecture 1 → labels 1 → could ever fit 1 → fits now 0" in out
    assert "behind: gang" not in out, "what can never run stands in nobody's way"
    assert "kernels would fit" in out
    assert "checks passed: keypair-resource-limit, group-resource-limit" in out


def test_explain_with_json_has_the_verdicts_with_their_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(written(tmp_path, MET), explain=True, json=True) == 0
    [outcome] = json.loads(capsys.readouterr().out)
    by_session = {verdict["session_id"]: verdict for verdict in outcome["verdicts"]}
    assert {name: (verdict["code"], verdict["advice"]) for name, verdict in by_session.items()} == {
        "fits": ("PLACED", "NOTHING"),
        "gang": ("NEVER_FITS", "CHANGE"),
        "last": ("NOT_ENOUGH_FREE", "WAIT"),
    }
    assert by_session["last"]["funnel"]["architecture"] == 1
    assert by_session["last"]["shortfall"] == {"cpu": 500}


def saved(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one snapshot that is saved of a scenario."""
    target = folder / "saved"
    assert run(written(folder, MET), save=str(target)) == 0
    [path] = target.iterdir()
    assert f"wrote {path}\n" in capsys.readouterr().err
    return str(path)


def test_a_saved_snapshot_is_replayed_and_its_plan_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path, capsys)
    assert run(file, snapshot=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [f"{file}: 1 placements, 0 reservations", "KERNEL  SESSION  AGENT", "k1      fits     n1"]
    assert lines[3].split() == ["WAITS", "REASON", "SUMMARY"]
    assert [line.split()[:2] for line in lines[4:]] == [["gang", "NEVER_FITS"], ["last", "NOT_ENOUGH_FREE"]]


def test_a_replay_explains_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(saved(tmp_path, capsys), snapshot=True, explain=True) == 0
    assert "last  NOT_ENOUGH_FREE  WAIT\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_replay_in_json_is_the_plan_and_of_several_files_a_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, capsys)
    other = written(tmp_path, Path(file).read_text(encoding="utf-8"), "other.json")
    assert run(file, snapshot=True, json=True) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["placements"] == [{"kernel_id": "k1", "session_id": "fits", "agent_id": "n1"}]
    assert run(file, other, snapshot=True, json=True) == 0
    assert json.loads(capsys.readouterr().out) == [{"file": file, "plan": plan}, {"file": other, "plan": plan}]


@pytest.mark.parametrize("text", ["", "scenario: this is YAML", "{}", '{"sokovan": "plan", "version": 1, "plan": {}}'])
def test_a_file_that_is_no_snapshot_ends_with_2(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written(tmp_path, text), snapshot=True) == 2
    assert "[invalid-snapshot]" in capsys.readouterr().err
