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


def test_an_action_on_a_machine_is_tried_out() -> None:
    call = calls.agent_impact("gpu2", "drain")
    assert (call.method, call.path, call.query) == ("PATCH", "/api/v1/agents/gpu2", {"dry_run": "true"})
    assert call.body == {"action": "drain"}


def test_a_timeline_has_a_time_and_goes_on_at_its_cursor() -> None:
    call = calls.timeline({"since": "t", "agent": "gpu2"}, limit=3, cursor="c")
    assert call.query == {"since": "t", "agent": "gpu2", "limit": "3", "cursor": "c"}
    assert calls.timeline().query == {}


def test_limits_are_of_one_kind_or_of_all() -> None:
    assert calls.limits(kind="user", limit=2).query == {"kind": "user", "limit": "2"}
    assert calls.limits().path == "/api/v1/limits"
