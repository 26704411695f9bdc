"""`sokovan context`: the servers this client knows."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from sokovan.sdk.config import config_path, read_config
from tests.unit.cli.canned_server import CannedServer, Sokovan


@pytest.mark.slow
def test_a_context_is_added_used_listed_and_removed(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOKOVAN_URL")
    assert sokovan("context", "add", "lab", "https://lab")[0] == 0
    assert sokovan("context", "add", "other", "http://other", "--keep-current")[0] == 0
    assert json.loads(sokovan("context", "ls", "--json")[1]) == [
        {"name": "lab", "url": "https://lab", "current": True, "has_token": True},
        {"name": "other", "url": "http://other", "current": False, "has_token": True},
    ]
    assert sokovan("context", "use", "other")[0] == 0
    assert sokovan("context", "rm", "lab")[0] == 2
    assert sokovan("context", "rm", "lab", "--yes")[0] == 0
    assert sokovan("context", "ls", "-o", "name") == (0, "other\n", "")
    assert server.asked == []


def test_the_key_comes_from_a_file(
    server: CannedServer, sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOKOVAN_TOKEN")
    (tmp_path / "key").write_text("sk-from-file\n", encoding="utf-8")
    assert sokovan("context", "add", "lab", server.url, "--token-file", "key")[0] == 0
    assert read_config(config_path()).contexts["lab"].token == "sk-from-file"  # noqa: S105  # not a real password
    (tmp_path / "authority.pem").write_text("pem", encoding="utf-8")
    words = ("--token-file", "key", "--ca", "authority.pem")
    assert sokovan("context", "add", "far", "https://10.0.0.1", *words)[0] == 0
    assert read_config(config_path()).contexts["far"].ca == str(tmp_path / "authority.pem")


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (("lab", "https://lab"), None),
        (("lab", "https://lab", "--token-file", "key"), None),
        (("lab", "https://lab", "--token-file", "key"), b"two words"),
        (("lab", "https://lab", "--token-file", "key"), b""),
        (("lab", "https://lab", "--token-file", "key"), b"\xff"),
        (("lab", "lab", "--token-file", "key"), b"sk-1"),
        (("lab", "https://lab", "--token-file", "key", "--ca", "none.pem"), b"sk-1"),
        (("a b", "https://lab", "--token-file", "key"), b"sk-1"),
    ],
)
def test_invalid_values_are_a_usage_error_and_nothing_is_written(
    sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], *, content: bytes | None
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SOKOVAN_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    status, out, err = sokovan("context", "add", *words)
    assert (status, out) == (2, "")
    assert "hint:" in err
    assert not (tmp_path / "sokovan").exists()


def test_an_unknown_context_is_an_error(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("context", "use", "lab")[0] == 2
    assert sokovan("context", "rm", "lab", "--yes")[0] == 2
    assert server.asked == []
