"""`sokovan init`, `sokovan schema` and `sokovan session spec`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sokovan.sdk.spec.session_spec import read_spec_documents
from tests.unit.cli.canned_server import CannedServer, Sokovan


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_spec_and_its_schema_are_written(sokovan: Sokovan, folder: Path) -> None:
    status, out, err = sokovan("init", "train")
    assert (status, out) == (0, "")
    assert "next: sokovan plan -f train.sokovan.yaml" in err
    [spec] = read_spec_documents((folder / "train.sokovan.yaml").read_text(encoding="utf-8"), "f")
    assert spec.body.name == "train"
    assert json.loads((folder / "session.schema.json").read_text(encoding="utf-8")) == json.loads(sokovan("schema")[1])


def test_an_existing_file_is_kept_without_force(sokovan: Sokovan, folder: Path) -> None:
    (folder / "train.sokovan.yaml").write_text("mine", encoding="utf-8")
    assert sokovan("init", "train")[0] == 2
    assert (folder / "train.sokovan.yaml").read_text(encoding="utf-8") == "mine"
    assert sokovan("init", "train", "--force")[0] == 0


@pytest.mark.parametrize("name", ["", "../up", "a b", "/etc/passwd", "x" * 65])
def test_a_name_that_is_a_path_is_refused(sokovan: Sokovan, folder: Path, name: str) -> None:
    status, _, err = sokovan("init", name)
    assert status == 2
    assert "is not a valid session name" in err
    assert list(folder.iterdir()) == []


def test_an_unknown_kind_has_no_schema(sokovan: Sokovan) -> None:
    assert sokovan("schema", "-k", "Quota")[0] == 2


def test_the_spec_of_a_session_is_a_file_and_its_notes_are_not_part_of_it(
    server: CannedServer, sokovan: Sokovan
) -> None:
    body = {"name": "ddp", "command": ["python", "a b.py"], "resources": {"cpu": 2}, "workdir": "/srv"}
    server.says("GET sessions/ddp/spec", {"session": "s-1", "body": body, "notes": ["give TOKEN again"]})
    status, out, err = sokovan("session", "spec", "ddp")
    assert (status, err) == (0, "note: give TOKEN again\n")
    [spec] = read_spec_documents(out, "f")
    assert (spec.body.name, spec.body.command, spec.body.workdir) == ("ddp", ["python", "a b.py"], "/srv")
    document = {"apiVersion": "sokovan/v1", "kind": "Session", **body}
    assert json.loads(sokovan("session", "spec", "ddp", "--json")[1]) == document
