"""`sokovan booking` and `sokovan agent maintenance`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from tests.unit.cli.canned_server import CannedServer, Sokovan

FROM, TO = "2030-01-31T18:00:00Z", "2030-01-31T20:00:00.000Z"


def body(**fields: Any) -> dict[str, Any]:
    return {"name": "demo", "starts_at": FROM, "ends_at": TO, "agents": ["gpu1"], **fields}


def test_agents_are_booked_for_a_length_or_until_a_time(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT bookings/demo", body())
    words = ("booking", "create", "demo", "--from", FROM, "--agent", "gpu1", "--user", "ana")
    status, _, err = sokovan(*words, "--for", "2h", "--release-unused", "5m")
    assert (status, err) == (0, f"booking demo from {FROM} to {TO}\n")
    assert server.body("PUT bookings/demo?replace=false") == {
        "name": "demo",
        "starts_at": FROM,
        "ends_at": TO,
        "agents": ["gpu1"],
        "users": ["ana"],
        "release_unused_s": 300,
    }
    assert sokovan(*words, "--to", TO)[0] == 0
    assert sokovan(*words)[0] == 2
    assert sokovan(*words, "--to", TO, "--for", "2h")[0] == 2
    assert sokovan("booking", "create", "demo", "--from", "soon", "--for", "2h")[0] == 2


def test_a_booking_is_changed_only_on_request(server: CannedServer, sokovan: Sokovan) -> None:
    server.refuses("PUT bookings/demo", 409, "already-exists")
    words = ("booking", "create", "demo", "--from", FROM, "--for", "2h", "--agent", "gpu2", "--user", "ana")
    status, _, err = sokovan(*words)
    assert (status, "there is a booking demo already" in err, "--replace" in err) == (2, True, True)
    assert server.lines == ["PUT bookings/demo?replace=false"]
    server.refuses("PUT bookings/demo", 409, "booking-conflict")
    assert sokovan(*words)[0] == 5
    server.says("PUT bookings/demo", body())
    assert sokovan(*words, "--replace")[0] == 0
    assert server.body("PUT bookings/demo")["agents"] == ["gpu2"]


def test_a_booking_is_of_one_choice_of_agents_for_someone_and_ends(sokovan: Sokovan) -> None:
    words = ("booking", "create", "demo", "--for", "2h")
    for wrong in (
        ("--from", FROM, "--user", "ana"),
        ("--from", FROM, "--user", "ana", "--agent", "gpu1", "--slot", "gpu=8"),
        ("--from", FROM, "--agent", "gpu1"),
        ("--from", "9999-12-31T23:00:00Z", "--user", "ana", "--agent", "gpu1"),
    ):
        status, _, err = sokovan(*words, *wrong)
        assert (status, "[invalid-setting]" in err) == (2, True), wrong


def test_agents_are_booked_by_what_they_have(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT bookings/demo", body(agents=["gpu1", "gpu2"], slots={"cuda.device": "16"}))
    words = ("booking", "create", "demo", "--from", FROM, "--for", "2h", "--user", "ana")
    assert sokovan(*words, "--slot", "gpu=16")[0] == 0
    sent = server.body("PUT bookings/demo?replace=false")
    assert (sent["slots"], sent.get("agents", [])) == ({"cuda.device": "16"}, [])
    assert sokovan(*words, "--slot", "gpu")[0] == 2


def test_maintenance_has_the_name_of_its_first_agent(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT bookings/maintenance-gpu1", body(name="maintenance-gpu1", kind="maintenance"))
    status, _, err = sokovan("agent", "maintenance", "gpu1", "gpu2", "--from", FROM, "--for", "2h")
    assert (status, err) == (0, f"maintenance maintenance-gpu1 from {FROM} to {TO}\n")
    assert server.body("PUT bookings/maintenance-gpu1?replace=false")["agents"] == ["gpu1", "gpu2"]
    assert sokovan("agent", "maintenance", "--from", FROM, "--for", "2h")[0] == 2


def test_bookings_are_listed_shown_and_removed(server: CannedServer, sokovan: Sokovan) -> None:
    shown = body(users=["ana"], groups=["nlp"])
    server.says("GET bookings", {"items": [shown], "next": None})
    server.says("GET bookings/demo", shown)
    server.refuses("GET bookings/demo/evictions", 403, "forbidden")
    server.says("DELETE bookings/demo", None, status=204)
    assert "user:ana, group:nlp" in sokovan("booking", "ls")[1]
    shown["return_s"] = 90
    server.says("GET bookings/demo", shown)
    out = sokovan("booking", "show", "demo")[1]
    assert "gpu1" in out
    assert "1m30s" in out
    assert sokovan("booking", "rm", "demo", "--yes") == (0, "", "booking demo removed\n")


def leaves(name: str, **more: Any) -> dict[str, Any]:
    times = {"notice_at": "2030-01-31T17:59:00.000Z", "ends_by": "2030-01-31T17:59:30.000Z"}
    return {"session": f"id-{name}", "name": name, "user": "bob", "kernels": 2, "whole": True, "then": "requeue"} | {
        **times, **more,
    }  # fmt: skip


def evictions(*planned: dict[str, Any], evicted: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"booking": "demo", "agents": ["gpu1"], "planned": list(planned), "evicted": evicted or []}


def test_a_dry_run_tells_whom_a_booking_would_evict_and_books_nothing(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT bookings/demo", evictions(leaves("train"), leaves("wide", whole=False, kernels=1, then="shrink")))
    words = ("booking", "create", "demo", "--from", FROM, "--for", "2h", "--agent", "gpu1", "--user", "ana")
    status, out, _ = sokovan(*words, "--dry-run", "--return-within", "1m")
    assert status == 0
    assert "booking demo can be met, on gpu1" in out
    assert "all kernels of train of bob: notice at 2030-01-31T17:59:00.000Z, ends by" in out
    assert "1 kernel of wide of bob" in out
    assert "it goes on with fewer kernels" in out
    assert server.lines == ["PUT bookings/demo?dry_run=true"]
    assert server.body("PUT bookings/demo?dry_run=true")["return_s"] == 60
    server.says("PUT bookings/demo", evictions())
    assert "no session is evicted for it" in sokovan(*words, "--dry-run")[1]
    assert '"planned"' in sokovan(*words, "--dry-run", "--json")[1]


def test_a_booking_that_is_made_says_whom_it_evicts(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT bookings/demo", body())
    over = leaves("old", ended_at="2030-01-31T17:59:10.000Z", lost_slot_s=80)
    found = evictions(leaves("train"), evicted=[over, leaves("first", lost_slot_s=4)])
    server.says("GET bookings/demo/evictions", found)
    words = ("booking", "create", "demo", "--from", FROM, "--for", "2h", "--agent", "gpu1", "--user", "ana")
    status, out, err = sokovan(*words)
    assert (status, out) == (0, "")
    noticed, ends = "2030-01-31T17:59:00.000Z", "ends by 2030-01-31T17:59:30.000Z"
    assert err.splitlines() == [
        f"booking demo from {FROM} to {TO}",
        f"  all kernels of train of bob: notice at {noticed}, {ends}; it waits again",
        f"  all kernels of first of bob: {noticed}, {ends}; 4 slot seconds lost",
    ]
    for more in (("--json",), ("--replace", "--json")):
        assert "train" not in "".join(map(str, sokovan(*words, *more)))
    server.says("PUT bookings/maintenance-gpu1", body(name="maintenance-gpu1", kind="maintenance"))
    server.says("GET bookings/maintenance-gpu1/evictions", found)
    err = sokovan("agent", "maintenance", "gpu1", "--from", FROM, "--for", "2h")[2]
    assert "  all kernels of train of bob: notice at" in err
    # The booking stands also if the server cannot say whom it evicts.
    server.refuses("GET bookings/demo/evictions", 503, "unavailable")
    assert sokovan(*words) == (0, "", f"booking demo from {FROM} to {TO}\n")


def test_an_administrator_sees_whom_a_booking_evicts_and_whom_it_did(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET bookings/demo", body(users=["ana"]))
    gone = leaves("old", evicted=True, ended_at="2030-01-31T17:59:10.000Z", lost_slot_s=80)
    server.says("GET bookings/demo/evictions", evictions(leaves("train", then="end"), evicted=[gone]))
    _, out, _ = sokovan("booking", "show", "demo")
    [planned] = [line for line in out.splitlines() if line.startswith("evicts ")]
    [done] = [line for line in out.splitlines() if line.startswith("evicted ")]
    assert planned.endswith("; it ends")
    assert "ended at 2030-01-31T17:59:10.000Z; 80 slot seconds lost" in done
    assert '"planned"' in sokovan("booking", "show", "demo", "-o", "json")[1]


def test_a_booking_begins_at_a_time_or_so_long_from_now(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT bookings/demo", body())
    words = ("booking", "create", "demo", "--agent", "gpu1", "--user", "ana", "--for", "2h")
    before = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    assert sokovan(*words, "--from", "1h30m")[0] == 0
    sent = server.body("PUT bookings/demo?replace=false")
    begins, ends = (datetime.fromisoformat(sent[key]) for key in ("starts_at", "ends_at"))
    assert ends - begins == timedelta(hours=2)
    assert begins >= before + timedelta(minutes=89)
    assert sokovan(*words, "--from", "words")[0] == 2
    status, _, err = sokovan(*words, "--from", "99999999d")
    assert (status, "it would begin after the year 9999" in err) == (2, True)
