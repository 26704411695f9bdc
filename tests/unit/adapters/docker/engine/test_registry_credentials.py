"""Credentials of registries, from the file of an account and from helpers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.docker.engine.registry_credentials import credentials_for
from sokovan.ports.runtime import ImageUnavailable

AUTH = base64.b64encode(b"me:secret").decode()


def configured(home: Path, **content: Any) -> Path:
    """A home with a configuration of Docker."""
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps(content))
    return home


def helper(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A helper called `lab` on the PATH."""
    program = folder / "docker-credential-lab"
    program.write_text(f"#!/bin/sh\nread -r registry\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def sent(headers: dict[str, str]) -> dict[str, str]:
    """The credentials in the header."""
    [value] = headers.values()
    decoded: dict[str, str] = json.loads(base64.urlsafe_b64decode(value))
    return decoded


def test_the_credentials_of_a_registry_are_those_of_the_account(tmp_path: Path) -> None:
    home = configured(tmp_path, auths={"registry.lab": {"auth": AUTH}})
    assert sent(credentials_for("registry.lab/train", home)) == {
        "username": "me",
        "password": "secret",
        "serveraddress": "registry.lab",
    }
    assert credentials_for("train", home) == {}
    assert credentials_for("registry.lab/train", tmp_path / "nobody") == {}


@pytest.mark.parametrize("content", [{"auths": []}, {"auths": {"registry.lab": 1}}, {"auths": {"registry.lab": {}}}])
def test_a_file_of_another_form_has_no_credentials(content: dict[str, Any], tmp_path: Path) -> None:
    assert credentials_for("registry.lab/train", configured(tmp_path, **content)) == {}


def test_a_helper_is_asked_for_its_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, """echo "{\\"Username\\": \\"at $registry $1\\", \\"Secret\\": \\"s\\"}" """)
    home = configured(tmp_path, credHelpers={"registry.lab": "lab"}, auths={"registry.lab": {"auth": AUTH}})
    found = sent(credentials_for("registry.lab/train", home))
    assert (found["username"], found["password"]) == ("at registry.lab get", "s")
    assert credentials_for("registry.elsewhere/train", home) == {}


def test_the_helper_for_all_registries_may_give_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, """echo '{"Username": "<token>", "Secret": "t"}' """)
    found = sent(credentials_for("train", configured(tmp_path, credsStore="lab")))
    assert found == {"identitytoken": "t", "serveraddress": "https://index.docker.io/v1/"}


def test_a_helper_without_credentials_leaves_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, "echo 'credentials not found in native keychain'; exit 1")
    home = configured(tmp_path, credsStore="lab", auths={"registry.lab": {"auth": AUTH}})
    assert sent(credentials_for("registry.lab/train", home))["username"] == "me"


@pytest.mark.parametrize("script", ["echo locked >&2; exit 1", "echo nothing"])
def test_a_helper_that_fails_is_named(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, script)
    with pytest.raises(ImageUnavailable, match="docker-credential-lab gave no credentials"):
        credentials_for("train", configured(tmp_path, credsStore="lab"))


@pytest.mark.parametrize("name", ["../lab", "missing"])
def test_what_is_no_helper_is_not_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, "echo run")
    with pytest.raises(ImageUnavailable, match="gave no credentials"):
        credentials_for("train", configured(tmp_path, credsStore=name))
