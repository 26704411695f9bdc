"""`sokovan queue`: queues, and how much each may use."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_a_queue_is_made(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT queues/research", {"name": "research"}, status=201)
    words = ("--weight", "3", "--max", "gpu=256", "--guarantee", "gpu=8", "--deserved", "cpu=4", "--parent", "root")
    assert sokovan("queue", "set", "research", *words) == (0, "", "queue research made\n")
    assert server.body("PUT queues/research") == {
        "name": "research",
        "parent": "root",
        "weight": 3,
        "deserved": {"cpu": "4"},
        "guarantee": {"cuda.device": "8"},
        "capability": {"cuda.device": "256"},
    }


def test_a_queue_is_closed_and_everything_else_stays(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET queues/research", {"name": "research", "weight": 3})
    server.says("PUT queues/research", {"name": "research"})
    assert sokovan("queue", "set", "research", "--closed") == (0, "", "queue research changed\n")
    assert server.body("PUT queues/research") == {"name": "research", "weight": 3, "open": False}


def test_what_is_no_amount_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("queue", "set", "research", "--max", "gpu")[0] == 2
    assert sokovan("queue", "set", "research", "--weight", "heavy")[0] == 2
    assert server.asked == []
