"""The requests about machines, owners and limits."""

from __future__ import annotations

from sokovan.sdk.core import catalog_calls as calls
from sokovan.wire.api.fleet import ImageBody, QueueBody


def test_an_object_is_written_under_its_own_name() -> None:
    call = calls.QUEUES.put(QueueBody(name="research", weight=3))
    assert (call.method, call.path, call.body) == ("PUT", "/api/v1/queues/research", {"name": "research", "weight": 3})
    assert call.repeatable


def test_an_image_is_found_by_its_architecture_too() -> None:
    assert calls.IMAGES.get("a/b:1", architecture="arm64").query == {"architecture": "arm64"}
    assert calls.IMAGES.delete("a/b:1", architecture=None).query == {}
    assert calls.IMAGES.put(ImageBody(name="a/b:1")).path == "/api/v1/images/a/b:1"


def test_requests_that_are_not_idempotent_are_not_repeatable() -> None:
    assert not calls.new_key("ada", None).repeatable
    assert not calls.delete_key("AK-1").repeatable
    assert not calls.QUEUES.delete("a").repeatable


def test_a_list_goes_on_at_its_cursor() -> None:
    for listing in (calls.agents, calls.keys, calls.USERS.listing):
        assert listing(limit=9, cursor="c").query == {"limit": "9", "cursor": "c"}


def test_a_machine_is_changed_by_an_action() -> None:
    call = calls.change_agent("gpu2", "drain", "dimm")
    assert (call.method, call.path) == ("PATCH", "/api/v1/agents/gpu2")
    assert call.body == {"action": "drain", "reason": "dimm"}
    assert calls.agent_history("gpu2").path == "/api/v1/agents/gpu2/history"
