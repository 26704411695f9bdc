"""What operators do in the dashboard: stop several sessions, watch figures move, compare queues, in Chromium."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sokovan.cli.formatting import utc_text
from tests.acceptance.embedded import until
from tests.browser.dashboard_rig import LASTED, LIMIT_MS, RULES, Dashboard, text_of, violations
from tests.browser.page_scripts import GOES

pytestmark = pytest.mark.server


def test_sessions_are_chosen_by_boxes_and_stopped_by_one_request(dashboard: Dashboard) -> None:
    for name in ("box-a", "box-b", "box-c"):
        dashboard.sokovan("run", "-d", "--name", name, "--cpus", "0.1", "--", "sleep", "600")
    with dashboard.page("/ui/sessions?q=box-") as page:
        page.get_by_role("row", name=re.compile("box-a")).wait_for()
        every = page.get_by_role("checkbox", name="select all sessions shown")
        every.check()
        page.get_by_text("3 selected").wait_for()
        page.get_by_role("checkbox", name="select box-b").uncheck()
        assert every.evaluate("(box) => box.indeterminate")
        # A box opens no drawer, and keys work while it has the focus.
        assert "open=" not in page.url
        page.keyboard.press("j")
        page.locator(".grid-row.active").wait_for()
        assert violations(page, *RULES) == []
        page.get_by_role("button", name="Clear").click()
        page.get_by_text("selected").wait_for(state="detached")
        every.check()
        # The last line names nothing: the others are judged for themselves.
        page.route("**/api/v1/sessions:stop", names_nothing_last)
        page.get_by_role("button", name="Stop 3 sessions").click()
        assert set(text_of(page, "dialog .copy code").split()) == {"sokovan", "stop", "box-a", "box-b", "box-c"}
        changes: list[str] = []
        page.on("request", lambda one: changes.append(one.method) if one.method != "GET" else None)
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        outcomes = page.get_by_role("status", name="outcomes")
        outcomes.get_by_text("1 session was refused.").wait_for()
        outcomes.get_by_role("list", name="refused").get_by_text("there is no session 'nothing'").wait_for()
        outcomes.get_by_text("2 sessions and how each was found").click()
        assert outcomes.get_by_role("list", name="accepted").get_by_role("listitem").count() == 2
        assert violations(page, *RULES) == []
        assert changes == ["POST"]
        # What was refused stays selected, to be tried again.
        page.unroute_all(behavior="wait")
        page.get_by_role("button", name="Stop 1 session").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        for name in ("box-a", "box-b", "box-c"):
            page.get_by_role("row", name=re.compile(f"cancelled {name}")).wait_for()


def test_the_tile_of_a_replica_that_is_killed_turns(dashboard: Dashboard) -> None:
    dashboard.sokovan("serve", "toy", "--name", "mortal", "--cpus", "0.1")
    [replica] = json.loads(dashboard.sokovan("deployment", "show", "mortal", "--json"))["replicas"]
    with dashboard.page("/ui/deployments/mortal") as page:
        tile = page.get_by_role("list", name="replicas").get_by_role("listitem").first
        page.locator(".tile.good", has_text="answers its checks").wait_for()
        # The sandbox of the replica has its own processes; without one, no other engine serves this model.
        dashboard.sokovan("exec", replica["session"], "--", "pkill", "-9", "-f", "[_]_toy-engine .*--model mortal")
        page.locator(".tile.bad", has_text="exit code 137").wait_for()
        assert violations(page, *RULES) == []
        page.locator(".tile.good", has_text="attempt 2").wait_for()
        assert tile.get_by_role("link", name="session").get_attribute("href") != f"/ui/sessions/{replica['session']}"
    dashboard.sokovan("deployment", "rm", "mortal", "--yes")


def test_clients_get_keys_and_the_number_of_replicas_follows_demand(dashboard: Dashboard) -> None:
    dashboard.sokovan("serve", "toy", "--name", "asked", "--cpus", "0.1")
    with dashboard.page("/ui/deployments/asked") as page:
        keys = page.get_by_role("region", name="keys for clients")
        keys.get_by_label("Name", exact=True).fill("ci")
        keys.get_by_label("Requests per minute").fill("600")
        assert "sokovan token create asked --name ci --requests-per-minute 600" in keys.inner_text()
        keys.get_by_role("button", name="New key").click()
        row = keys.get_by_role("row", name=re.compile("tok-.* ci all 600 requests"))
        row.wait_for()
        token = keys.get_by_role("status").locator("code").inner_text()
        curl = keys.locator(".copy code", has_text="curl").inner_text()
        assert token in curl
        keys.get_by_text("With the OpenAI client").click()
        assert token in keys.get_by_label("python").inner_text()
        # What is to be copied works as it is.
        answer = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True).stdout  # noqa: S607  # wherever bash is
        assert json.loads(answer)["choices"][0]["message"]["content"]
        assert violations(page, *RULES) == []
        row.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True).click()
        row.wait_for(state="detached")
        assert "ci" not in dashboard.sokovan("token", "ls", "asked").split()
        bounds = page.get_by_role("form", name="number of replicas")
        bounds.get_by_label("at most").fill("3")
        bounds.get_by_role("combobox").select_option("qps")
        bounds.get_by_label("target of each").fill("50")
        assert "sokovan deployment scale asked 1 --max 3 --metric qps --target 50" in bounds.inner_text()
        bounds.get_by_role("button", name="Scale", exact=True).click()
        page.get_by_text("between 1 and 3 by qps").wait_for()
        assert bounds.get_by_label("target of each").input_value() == "50"
        bounds.get_by_label("at most").fill("")
        bounds.get_by_role("button", name="Scale", exact=True).click()
        page.get_by_text("1 of 1, fixed").wait_for()
    shown = json.loads(dashboard.sokovan("deployment", "show", "asked", "--json"))
    assert (shown["replicas_max"], shown["scaling"]["metric"]) == (1, "manual")
    dashboard.sokovan("deployment", "rm", "asked", "--yes")


def test_the_figures_of_the_overview_move_when_a_session_starts(dashboard: Dashboard) -> None:
    # A replica of a deployment that was removed by the test before would leave while the figures are compared.
    until(lambda: json.loads(dashboard.sokovan("ps", "--json")) == [], what="no session is live")
    with dashboard.page("/ui/") as page:
        page.get_by_role("heading", name="Overview").wait_for()
        running = int(figure(page, "running").inner_text())
        held, _, total = figure(page, "cuda.device").inner_text().partition(" / ")
        dashboard.sokovan("run", "-d", "--name", "counted", "--gpus", "2", "--", "sleep", "600")
        figure(page, "running").filter(has_text=re.compile(f"^{running + 1}$")).wait_for()
        figure(page, "cuda.device").filter(has_text=re.compile(f"^{int(held) + 2} . {total}$")).wait_for()
        dashboard.sokovan("stop", "counted", "--yes")
        figure(page, "cuda.device").filter(has_text=re.compile(f"^{held} . {total}$")).wait_for()


def figure(page: Any, label: str) -> Any:
    """The value of a figure of the overview."""
    return (
        page.locator(".figure", has=page.locator("dt", has_text=re.compile(f"^{re.escape(label)}$")))
        .locator("dd")
        .first
    )


def test_a_past_time_has_the_bars_of_what_ran_then(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "--name", "yore", "--gpus", "2", "--", "sleep", "2")
    shown = json.loads(dashboard.sokovan("session", "show", "yore", "--json"))
    ended, [kernel] = datetime.fromisoformat(shown["ended_at"]), shown["kernels"]
    begin, end = (utc_text(ended + timedelta(seconds=of)) for of in (-300, 2))
    with dashboard.page(f"/ui/timeline?q=yore&from={begin}&to={end}") as page:
        bar = page.locator("[data-session=yore] .gantt-bar.held")
        bar.get_by_text(re.compile(rf"^2 GPU {LASTED}$")).wait_for()
        copied = shlex.split(text_of(page, ".bar .copy code"))
        assert copied == ["sokovan", "timeline", "--from", begin, "--to", end, "--search", "yore"]
        assert "yore" in dashboard.sokovan(*copied[1:])
        assert violations(page, *RULES) == []
        # By keys: earlier, where nothing ran, and back.
        page.get_by_role("button", name="Earlier").focus()
        page.keyboard.press("Enter")
        page.get_by_text("No session ran or waited in this time.").wait_for()
        assert f"to={begin}" in page.url.replace("%3A", ":")
        assert violations(page, *RULES) == []
        page.get_by_role("button", name="Later").click()
        bar.wait_for()
        page.get_by_role("button", name="devices", exact=True).click()
        page.get_by_label("Agent").fill(kernel["agent"])
        page.keyboard.press("Enter")
        # Others may have held the same device a moment before, and share its target.
        page.locator(".gantt-bar.held[title^='yore of admin, ']").first.wait_for(state="attached")
        assert (
            f"sokovan agent timeline {kernel['agent']} --from {begin} --to {end}"
            in page.locator(".copy").first.inner_text()
        )
        page.get_by_role("button", name="Now").click()
        page.get_by_role("button", name="1h", exact=True).and_(page.locator("[aria-pressed=true]")).wait_for()
        assert "from=" not in page.url
        for label, text in (("from", "2020-01-31T08:00"), ("to", "2020-01-31T09:00")):
            page.get_by_label(label, exact=True).fill(text)
            page.keyboard.press("Enter")
        page.get_by_text("None of these devices was held, booked or kept in this time.").wait_for()
    with dashboard.page("/ui/timeline?from=yesterday") as page:
        page.get_by_role("alert").get_by_text('"from" is not a time: yesterday').wait_for()
        assert violations(page, *RULES) == []


def test_a_booking_shows_who_leaves_and_who_left(dashboard: Dashboard) -> None:
    train = ("--type", "batch", "--gpus", "8", "--grace", "1s", "--cpus", "0.1")
    dashboard.sokovan("run", "-d", "--name", "in-its-way", *train, "--", "sleep", "600")
    dashboard.sokovan("wait", "in-its-way", "--until", "running")
    [kernel] = json.loads(dashboard.sokovan("session", "show", "in-its-way", "--json"))["kernels"]
    create = ("booking", "create", "demo", "--for", "2h", "--agent", kernel["agent"], "--user", "admin", "--from")
    dashboard.sokovan(*create, "1h")
    with dashboard.page("/ui/timeline") as page:
        page.get_by_role("link", name="Bookings").click()
        page.get_by_role("row", name=re.compile(f"^demo booking begins in .* {kernel['agent']} user admin$")).wait_for()
        assert violations(page, *RULES) == []
        page.get_by_role("link", name="demo", exact=True).click()
        leaves = page.get_by_role("region", name="sessions that leave")
        leaves.get_by_role("row", name=re.compile("^in-its-way admin all .* waits again$")).wait_for()
        page.get_by_text("No session was evicted.").wait_for()
        assert violations(page, *RULES) == []
        # The page shows what becomes of it, without being loaded again.
        dashboard.sokovan(*create, "10s", "--replace")
        left = page.get_by_role("region", name="evicted sessions")
        left.get_by_role("row", name=re.compile("^in-its-way admin all .* ago .* ago [0-9]+ slot seconds?$")).wait_for()
        leaves.wait_for(state="detached")
        page.get_by_text(re.compile("^booking, now, ends in ")).wait_for()
        assert violations(page, *RULES) == []
        dashboard.sokovan("run", "-d", "--name", "guest", "--booking", "demo", "--cpus", "0.1", "--", "sleep", "600")
        page.evaluate(GOES, "/ui/sessions/guest")
        page.locator(".facts").get_by_role("link", name="demo", exact=True).click()
        page.get_by_role("heading", name="demo", exact=True).wait_for()
        page.get_by_role("link", name="Timeline").click()
        lane = page.get_by_role("row", name=re.compile("^booking demo"))
        assert lane.get_by_role("link").get_attribute("href") == "/ui/bookings/demo"
    dashboard.sokovan("stop", "guest", "in-its-way", "--yes")
    dashboard.sokovan("booking", "rm", "demo", "--yes")


def test_the_output_of_a_gang_is_read_together(dashboard: Dashboard) -> None:
    script = 'echo "step $RANK"; echo "loss of $RANK" >&2; while [ ! -e go ]; do sleep 0.2; done; echo "later $RANK"'
    gang = ("--where", "sokovan.fake not exists", "--cpus", "0.1", "--size", "3")
    dashboard.sokovan("run", "-d", "--name", "choir", *gang, "--", "sh", "-c", script)
    with dashboard.page("/ui/sessions/choir") as page:
        log = page.get_by_role("region", name="log")
        output = log.get_by_role("region", name="output")
        for rank in range(3):
            output.filter(has_text=re.compile(rf"\[{rank}\] step {rank}")).wait_for()
        # They are on one machine, and share a folder.
        dashboard.sokovan("exec", "choir", "--", "touch", "go")
        for rank in range(3):
            output.filter(has_text=re.compile(rf"\[{rank}\] later {rank}")).wait_for()
        log.get_by_text("complete, 3 kernels").wait_for()
        log.get_by_label("find in these logs").fill("LOSS")
        log.get_by_text("3 of 9 lines").wait_for()
        assert sorted(output.inner_text().splitlines()) == [f"[{rank}] loss of {rank}" for rank in range(3)]
        assert violations(page, *RULES) == []
        log.get_by_label("kernels").fill("0,2")
        page.keyboard.press("Enter")
        log.get_by_text("2 of 6 lines").wait_for()
        assert "kernels=0%2C2" in page.url
        copied = shlex.split(log.locator(".copy code").inner_text())
        assert copied[:5] == ["sokovan", "logs", "choir", "--kernel", "0,2"]
        assert sorted(dashboard.sokovan(*copied[1:]).splitlines()) == ["[0] loss of 0", "[2] loss of 2"]
        with page.expect_download() as found:
            log.get_by_role("button", name="Download").click()
        saved = Path(found.value.path()).read_text(encoding="utf-8").splitlines()
        assert sorted(saved) == sorted(
            f"[{rank}] {word} {rank}" for rank in (0, 2) for word in ("step", "loss of", "later")
        )
        log.get_by_label("kernels").fill("0-9")
        page.keyboard.press("Enter")
        log.get_by_role("alert").get_by_text("there is no kernel 9: they are 0 to 2").wait_for()
        page.get_by_role("button", name="one kernel", exact=True).click()
        output.filter(has_text=re.compile("^step 0")).wait_for()


def test_a_deployment_says_how_long_its_answers_take(dashboard: Dashboard) -> None:
    dashboard.sokovan("serve", "toy", "--name", "timed", "--cpus", "0.1")
    with dashboard.page("/ui/deployments/timed") as page:
        page.get_by_text("No answer came in the last minutes.").wait_for()
        dashboard.sokovan("chat", "timed", "hello")
        page.locator(".figure", has_text="to the first token").get_by_text("of 1 answer in 5 minutes").wait_for()
        tile = page.get_by_role("list", name="replicas").get_by_role("listitem").first
        tile.get_by_text(re.compile(r"^\d+ m?s / \d.* to the first token, .* to the end")).wait_for()
        assert violations(page, *RULES) == []
    shown = json.loads(dashboard.sokovan("deployment", "show", "timed", "--json"))
    assert shown["latency"] == shown["replicas"][0]["latency"]
    assert shown["latency"]["answers"] == 1
    assert "to the first token" in dashboard.sokovan("deployment", "show", "timed")
    dashboard.sokovan("deployment", "rm", "timed", "--yes")


def test_two_queues_settle_at_their_weights_and_say_who_borrows(dashboard: Dashboard) -> None:
    dashboard.sokovan("scaling-group", "set", "default", "--scheduler", "drf")
    for queue, weight in (("heavy", "3"), ("light", "1")):
        dashboard.sokovan("queue", "set", queue, "--weight", weight)
    # All devices are held while both loads are submitted: the order of submission decides nothing.
    dashboard.sokovan(
        "run", "-d", "--name", "before", "--size", "64", "--gpus", "8", "--cpus", "0.1", "--", "sleep", "600"
    )
    dashboard.sokovan("wait", "before", "--until", "running")
    load = ("--array", "0-63", "--gpus", "8", "--cpus", "0.1", "--", "sleep", "600")
    for queue in ("light", "heavy"):
        dashboard.sokovan("run", "-d", "--name", f"of-{queue}", "--queue", queue, *load)
    with dashboard.page("/ui/queues?slot=cuda.device") as page:
        dashboard.sokovan("stop", "before", "--yes")
        for queue, weight, share in (("heavy", "3", "384"), ("light", "1", "128")):
            in_use(page, queue).filter(has_text=re.compile(f"^{share}$")).wait_for()
            assert page.locator(f"tr[data-queue={queue}] td").first.inner_text() == weight
        # A queue uses what the other one leaves, and the other one waits for its share.
        dashboard.sokovan("stop", "of-heavy", "--yes")
        in_use(page, "light").filter(has_text=re.compile("^512$")).wait_for()
        dashboard.sokovan("run", "-d", "--name", "late", "--queue", "heavy", *load)
        page.get_by_role("list", name="who borrows from whom").get_by_text(
            "light borrows up to 384 cuda.device from heavy, which waits for 512"
        ).wait_for()
        assert violations(page, *RULES) == []
    dashboard.sokovan("stop", "of-light", "late", "--yes")
    dashboard.sokovan("scaling-group", "set", "default", "--scheduler", "fifo")


def in_use(page: Any, queue: str) -> Any:
    """The cell of what a queue holds."""
    return page.locator(f"tr[data-queue={queue}] td").nth(2)


def test_a_request_that_is_submitted_twice_makes_one_session(dashboard: Dashboard) -> None:
    dashboard.sokovan("queue", "set", "twice")
    sent: list[str] = []
    with dashboard.page("/ui/new") as page:
        page.on(
            "request",
            lambda one: sent.append(one.headers["idempotency-key"]) if one.url.endswith("/sessions") else None,
        )
        page.get_by_label("Command").fill("sleep 600")
        page.get_by_label("Queue").select_option("twice")
        page.get_by_text("would start now").wait_for()
        # Both before the page is drawn again: sooner than any hand.
        page.locator("form.new").evaluate("(form) => { form.requestSubmit(); form.requestSubmit(); }")
        page.locator(".bar .state", has_text="running").wait_for()
    assert len(set(sent)) == 1
    assert len(sent) == 2, "nothing but the key keeps them apart"
    names = dashboard.sokovan("ps", "--all", "--queue", "twice", "-o", "name").split()
    assert len(names) == 1
    dashboard.sokovan("stop", *names, "--yes")


def test_no_page_of_another_origin_shows_the_dashboard_in_a_frame(dashboard: Dashboard) -> None:
    page = dashboard.context.new_page()
    page.set_default_timeout(LIMIT_MS)
    # A server of its own: what a test answers itself, a browser lets read nothing of this machine.
    with framing(dashboard.url) as other:
        for path in ("/ui/", "/ui/sessions/any/terminal"):
            with (
                page.expect_console_message(lambda message: "frame-ancestors 'none'" in message.text),
                page.expect_event("requestfailed", lambda one, path=path: one.url == dashboard.url + path),
            ):
                page.goto(f"{other}{path}")
            [_, frame] = page.frames
            assert not frame.url.startswith(dashboard.url)
    page.close()


@contextmanager
def framing(url: str) -> Iterator[str]:
    """An origin whose every page has that of the other one in a frame."""

    class Framing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<iframe src="{url}{self.path}"></iframe>'.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the standard library
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Framing) as server:
        running = Thread(target=server.serve_forever)
        running.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            running.join()


def names_nothing_last(route: Any) -> None:
    """Send a request of lines, the last of which names no session."""
    *lines, _ = route.request.post_data.splitlines()
    route.continue_(post_data="\n".join([*lines, '{"session": "nothing"}']))
