"""Sessions on the wire: one definition for server and client."""

from __future__ import annotations

from sokovan.wire.api.sessions import LogChunk, SessionBody, SessionPage
from tests.unit.wire.api.bodies import read_by_both, refused, written


def test_a_request_is_the_same_for_server_and_client() -> None:
    body = read_by_both(
        SessionBody,
        {
            "name": "ddp",
            "command": ["python", "train.py"],
            "resources": {"cpu": 0.5, "mem": "16GiB", "gpu": 1},
            "groups": [{"name": "worker", "size": 4}],
            "mounts": [{"source": "/data", "target": "/work"}],
        },
    )
    assert body.groups[0].size == 4
    assert body.mounts[0].read_only
    assert body.type == "batch"


def test_a_misspelt_key_is_refused_wherever_it_is() -> None:
    assert "comand" in refused(SessionBody, {"comand": []})
    assert "sise" in refused(SessionBody, {"groups": [{"name": "a", "sise": 1}]})
    assert "readonly" in refused(SessionBody, {"mounts": [{"source": "/a", "target": "/b", "readonly": True}]})


def test_an_unknown_kind_of_session_is_refused() -> None:
    assert "type" in refused(SessionBody, {"type": "party"})


def test_an_empty_page_is_an_empty_list() -> None:
    assert written(SessionPage(items=[])) == {"items": [], "next": None}


def test_a_chunk_of_a_log_says_where_it_ends() -> None:
    chunk = LogChunk(kernel=0, offset=0, next_offset=6, data="aGVsbG8K")
    assert read_by_both(LogChunk, written(chunk)) == chunk
