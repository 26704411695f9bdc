"""`sokovan scaling-group`: pools of machines."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_a_pool_is_made(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT scaling-groups/gpu", {"name": "gpu"}, status=201)
    words = ("--scheduler", "drf", "--slot", "cpu", "--slot", "mem", "--pending-timeout", "2h", "--option", "a=1")
    assert sokovan("scaling-group", "set", "gpu", *words, "--option", "b=text")[0] == 0
    assert server.body("PUT scaling-groups/gpu") == {
        "name": "gpu",
        "scheduler": "drf",
        "scheduler_opts": {"a": 1, "b": "text"},
        "known_slots": ["cpu", "mem"],
        "pending_timeout_s": 7200,
    }


def test_options_are_added_to_those_there_are(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET scaling-groups/gpu", {"name": "gpu", "scheduler_opts": {"a": 1, "b": 2}})
    server.says("PUT scaling-groups/gpu", {"name": "gpu"})
    sokovan("scaling-group", "set", "gpu", "--option", 'b={"c": [1]}')
    assert server.body("PUT scaling-groups/gpu") == {"name": "gpu", "scheduler_opts": {"a": 1, "b": {"c": [1]}}}


def test_what_cannot_be_read_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("scaling-group", "set", "gpu", "--option", "a")[0] == 2
    assert sokovan("scaling-group", "set", "gpu", "--pending-timeout", "long")[0] == 2
    assert server.asked == []
