"""Bad requests for sessions: each a clear error with code and hint, and nothing stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sokovan.ports.repositories.sessions import SessionFilter
from tests.unit.api.api_harness import ApiHarness, api_harness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")
GOOD: dict[str, Any] = {"command": ["true"], "resources": {"cpu": 1}}

# What is wrong, and where the answer points to ("" where the whole body is meant).
FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("size zero", {"size": 0}, "size"),
    ("size below zero", {"size": -1}, "size"),
    ("size beyond all bounds", {"size": 10**9}, "size"),
    ("size with 400 digits", {"size": int("9" * 400)}, "size"),
    ("size as text", {"size": "3"}, "size"),
    ("size as float", {"size": 1.5}, "size"),
    ("size as truth", {"size": True}, "size"),
    ("size null", {"size": None}, "size"),
    ("minimum above size", {"size": 2, "minimum": 3}, "minimum"),
    ("minimum below zero", {"minimum": -1}, "minimum"),
    ("name empty", {"name": ""}, "name"),
    ("name with blanks", {"name": "my job"}, "name"),
    ("name with NUL", {"name": "a\0b"}, "name"),
    ("name too long", {"name": "x" * 129}, "name"),
    ("name that climbs", {"name": "../../etc"}, "name"),
    ("name with a line break", {"name": "a\nb"}, "name"),
    ("name in other letters", {"name": "jöb"}, "name"),
    ("name as number", {"name": 5}, "name"),
    ("type unknown", {"type": "daemon"}, "type"),
    ("type for administrators", {"type": "system"}, "type"),
    ("no command", {"command": []}, "command"),
    ("command as a line", {"command": "rm -rf /"}, "command"),
    ("command with an empty program", {"command": [""]}, "command"),
    ("command with NUL", {"command": ["a\0b"]}, "command"),
    ("command with numbers", {"command": ["sleep", 5]}, "command/1"),
    ("command of too many words", {"command": ["x"] * 1001}, "command"),
    ("command of too many bytes", {"command": ["x" * (200 << 10)]}, "command"),
    ("environment with a bad name", {"environment": {"A B": "1"}}, "environment"),
    ("environment of the system", {"environment": {"SOKOVAN_RANK": "0"}}, "environment"),
    ("environment with numbers", {"environment": {"A": 1}}, "environment/A"),
    ("environment with NUL", {"environment": {"A": "a\0b"}}, "environment/A"),
    ("environment too large", {"environment": {"A": "x" * (70 << 10)}}, "environment"),
    ("environment as a list", {"environment": ["A=1"]}, "environment"),
    ("slot unknown to reason", {"resources": {"CPU": 1}}, "resources"),
    ("slot below zero", {"resources": {"cpu": -1}}, "resources"),
    ("slot finer than it is", {"resources": {"cpu": 0.0001}}, "resources"),
    ("slot with a bad unit", {"resources": {"mem": "4 gigs"}}, "resources"),
    ("slot without an amount", {"resources": {"mem": ""}}, "resources"),
    ("slot beyond all bounds", {"resources": {"mem": "99999999Pi"}}, "resources"),
    ("slot as a list", {"resources": {"cpu": [1]}}, "resources/cpu"),
    ("slot null", {"resources": {"cpu": None}}, "resources/cpu"),
    ("half a device", {"resources": {"cuda.device": 0.5}}, "resources"),
    ("groups and size", {"size": 2, "groups": [{"name": "a"}]}, "size"),
    ("group without a name", {"groups": [{"size": 1}]}, "groups/0/name"),
    ("groups of one name", {"groups": [{"name": "a"}, {"name": "a"}]}, "groups/0/name"),
    ("group of nothing", {"groups": [{"name": "a", "size": 0}]}, "groups/0/size"),
    ("group with unknown keys", {"groups": [{"name": "a", "sice": 2}]}, "groups/0/sice"),
    ("mount that climbs", {"mounts": [{"source": "/data/../etc", "target": "/in"}]}, "mounts/0/source"),
    ("mount target that climbs", {"mounts": [{"source": "/data", "target": "/in/../../etc"}]}, "mounts/0/target"),
    ("mount that is not absolute", {"mounts": [{"source": "data", "target": "/in"}]}, "mounts/0/source"),
    ("mount over the system", {"mounts": [{"source": "/data", "target": "/etc"}]}, "mounts/0/target"),
    ("mount of the system", {"mounts": [{"source": "/proc", "target": "/in"}]}, "mounts/0/source"),
    ("mount with NUL", {"mounts": [{"source": "/a\0b", "target": "/in"}]}, "mounts/0/source"),
    ("mount of the root", {"mounts": [{"source": "/", "target": "/in"}]}, "mounts/0/source"),
    ("mount without a target", {"mounts": [{"source": "/data"}]}, "mounts/0/target"),
    (
        "mounts in each other",
        {"mounts": [{"source": "/a", "target": "/in"}, {"source": "/b", "target": "/in/x"}]},
        "mounts/1/target",
    ),
    ("labels with numbers", {"labels": {"a": 1}}, "labels/a"),
    ("too many labels", {"labels": {f"l{number}": "" for number in range(65)}}, "labels"),
    ("image unknown", {"image": "registry/none:1"}, "image"),
    ("image with blanks", {"image": "a b"}, "image"),
    ("pool unknown", {"scaling_group": "moon"}, "scaling_group"),
    ("queue unknown", {"queue": "moon"}, "queue"),
    ("group of others", {"group": "south-group"}, "group"),
    ("group unknown", {"group": "moon"}, "group"),
    ("priority beyond all bounds", {"priority": 10**7}, "priority"),
    ("priority as text", {"priority": "high"}, "priority"),
    ("closeness unknown", {"topology": "near"}, "topology"),
    ("closeness without a tier", {"topology": "hard:"}, "topology"),
    ("depends on nothing", {"depends_on": ["nothing"]}, "depends_on"),
    ("depends on others' work", {"depends_on": ["south-run"]}, "depends_on"),
    ("start that is no time", {"starts_at": "tomorrow"}, "starts_at"),
    ("start without an offset", {"starts_at": "2030-01-01T00:00:00"}, "starts_at"),
    ("start of an interactive session", {"type": "interactive", "starts_at": "2027-01-01T00:00:00Z"}, "starts_at"),
    ("start in a hundred years", {"starts_at": "2130-01-01T00:00:00Z"}, "starts_at"),
    ("limit of nothing", {"time_limit": 0}, "time_limit"),
    ("limit that is no duration", {"time_limit": "soon"}, "time_limit"),
    ("limit of ages", {"time_limit": "9999d"}, "time_limit"),
    ("grace below zero", {"stop_grace": -1}, "stop_grace"),
    ("grace of a day", {"stop_grace": "1d"}, "stop_grace"),
    ("end unknown", {"ends_with": "some"}, "ends_with"),
    ("policy unknown", {"on_agent_lost": "weep"}, "on_agent_lost"),
    ("truth as text", {"preemptible": "yes"}, "preemptible"),
    ("unknown key", {"gpus": 1}, "gpus"),
    ("key of the server", {"user": "root"}, "user"),
    ("key of the record", {"status": "running"}, "status"),
]
RAW: list[tuple[str, bytes, int]] = [
    ("nothing", b"", 422),
    ("no JSON", b"{", 422),
    ("a list", b"[]", 422),
    ("null", b"null", 422),
    ("a text", b'"sleep 5"', 422),
    ("YAML", b"command: [sleep]\n", 422),
    ("not UTF-8", b'{"name": "\xff\xfe"}', 422),
    ("half a character", b'{"name": "\\ud800"}', 422),
    ("a byte order mark", b"\xef\xbb\xbf{}", 422),
    ("nested too deep", b'{"resources":' * 100 + b"1" + b"}" * 100, 422),
    ("brackets without end", b"[" * 100_000, 422),
    ("not a number", b'{"size": NaN}', 422),
    ("infinite", b'{"resources": {"cpu": 1e999}}', 422),
    ("too long", b'{"command": ["' + b"x" * (1 << 20) + b'"]}', 413),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[ApiHarness]:
    """One session of another tenant, and nothing else."""
    async with api_harness() as made:
        await made.run("south-run", member("south"))
        yield made


async def sessions(api: ApiHarness) -> list[tuple[str, int]]:
    found = await api.cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    return [(one.session_id, one.version) for one in found]


def is_clear(problem: dict[str, Any], status: int) -> bool:
    return (
        problem["status"] == status
        and bool(problem["code"] and problem["hint"] and problem["detail"] and problem["request_id"])
        and problem["code"] != "internal"
        and problem["detail"].isprintable()
        and len(problem["detail"]) < 4000
    )


async def test_there_are_many_cases() -> None:
    assert len(FIELDS) + len(RAW) >= 90


@pytest.mark.parametrize("route", ["/sessions", "/sessions/plan"])
@pytest.mark.parametrize(("change", "where"), [case[1:] for case in FIELDS], ids=[case[0] for case in FIELDS])
async def test_a_bad_field_is_refused_by_its_place(
    api: ApiHarness, route: str, change: dict[str, Any], where: str
) -> None:
    before = await sessions(api)
    answer = await api.call(
        "POST", route, content=json.dumps({**GOOD, **change}), user=NORTH, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert is_clear(problem, 422), problem
    assert any(one["where"].startswith(where) for one in problem["problems"]), problem["problems"]
    assert await sessions(api) == before


@pytest.mark.parametrize(("content", "status"), [case[1:] for case in RAW], ids=[case[0] for case in RAW])
async def test_a_bad_body_is_refused_whole(api: ApiHarness, content: bytes, status: int) -> None:
    before = await sessions(api)
    answer = await api.call(
        "POST", "/sessions", content=content, user=NORTH, headers={"content-type": "application/json"}
    )
    assert answer.status_code == status, answer.text
    assert is_clear(answer.json(), status)
    assert await sessions(api) == before


async def test_the_good_body_would_have_been_taken(api: ApiHarness) -> None:
    assert (await api.call("POST", "/sessions", json=GOOD, user=NORTH)).status_code == 201
