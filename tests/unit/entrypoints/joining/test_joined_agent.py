"""The identity of a machine that has joined; tests/acceptance/test_joining.py joins one."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.joining.joined_agent import (
    JoinedMachine,
    ManagerUnreachable,
    NotJoined,
    join_machine,
    store_joined,
)
from sokovan.wire.join_messages import JoinGranted

NAME, SECRET = "t", "s"
TOKEN = f"{NAME}.{SECRET}"


def test_a_folder_without_an_identity_says_how_to_join(tmp_path: Path) -> None:
    with pytest.raises(NotJoined, match="no identity"):
        JoinedMachine.load(tmp_path)


def test_every_manager_is_known_and_that_which_was_joined_comes_first(tmp_path: Path) -> None:
    granted = JoinGranted("pem", "default", ("wss://a:1", "wss://b:2"))
    store_joined(tmp_path, "wss://b:2", "gpu1", granted)
    assert JoinedMachine.load(tmp_path).managers == ("wss://b:2", "wss://a:1")
    # A file of an earlier release names one.
    (tmp_path / "joined.json").write_text('{"url": "wss://a:1", "agent": "x", "scaling_group": "g"}', encoding="utf-8")
    assert JoinedMachine.load(tmp_path).managers == ("wss://a:1",)


def test_a_machine_with_fixed_managers_follows_no_announcement(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    for fixed, known in ((True, 1), (False, 2)):
        given = {"url": "wss://a:1", "agent": "x", "scaling_group": "g", "fixed": fixed}
        (tmp_path / "joined.json").write_text(json.dumps(given), encoding="utf-8")
        addresses = JoinedMachine.load(tmp_path).addresses(context)
        addresses.announce("wss://a:1", ("wss://a:1", "wss://b:1"), linked=())
        assert len(addresses) == known


async def test_a_token_is_not_sent_without_tls_or_to_nobody(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        await join_machine("ws://127.0.0.1:1", token=TOKEN, authority="sha256:0", agent_id="a", folder=tmp_path)
    with pytest.raises(ManagerUnreachable):
        await join_machine("wss://127.0.0.1:1", token=TOKEN, authority="sha256:0", agent_id="a", folder=tmp_path)
    assert not (tmp_path / "key.pem").exists()  # one look
