"""The dashboard in a real browser, over a real server with 64 fake agents of 8 devices."""

from __future__ import annotations

import json
import re

import pytest

from tests.acceptance.embedded import until
from tests.browser import page_scripts as scripts
from tests.browser.dashboard_rig import LASTED, LIMIT_MS, PAGES, RULES, Dashboard, rows_of_use, text_of, violations

pytestmark = pytest.mark.server

# A label that agents with simulated kernels have.
REAL = "sokovan.fake not exists"
# Keys reach the shell from here on.
TYPED = ".terminal-field:focus"
FAULT = "3 uncorrected memory errors; reset the device"


def test_an_address_logs_in_once_and_its_code_leaves_the_address(dashboard: Dashboard) -> None:
    address = dashboard.address()
    fresh = dashboard.context.browser.new_context()
    with dashboard.watched(fresh, address) as page:
        page.get_by_role("heading", name="Overview").wait_for()
        assert page.url == f"{dashboard.url}/ui/"
        assert page.evaluate("() => document.cookie") == ""
    fresh.close()
    again = dashboard.context.browser.new_context()
    with dashboard.watched(again, address, allowed=("401",)) as page:
        page.get_by_role("heading", name="Sokovan").wait_for()
        assert "a valid API key is required" in text_of(page, ".problem")
    again.close()


def test_the_cookie_without_the_proof_shows_the_login(dashboard: Dashboard) -> None:
    stolen = dashboard.context.browser.new_context()
    stolen.add_cookies(dashboard.context.cookies())
    with dashboard.watched(stolen, f"{dashboard.url}/ui/sessions", allowed=("401",)) as page:
        page.get_by_label("Or enter an API key").wait_for()
        assert page.evaluate("() => fetch('/api/v1/whoami').then((answer) => answer.status)") == 401
    stolen.close()


def test_a_key_logs_in_and_logging_out_ends_the_login(dashboard: Dashboard) -> None:
    token = dashboard.sokovan("key", "add", "-o", "json").partition('"token": "')[2].partition('"')[0]
    fresh = dashboard.context.browser.new_context()
    with dashboard.watched(fresh, f"{dashboard.url}/ui/cluster") as page:
        page.get_by_label("Or enter an API key").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Cluster").wait_for()
        before = dashboard.sokovan("login", "ls", "-o", "name").split()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Or enter an API key").wait_for()
        after = dashboard.sokovan("login", "ls", "-o", "name").split()
        assert len(after) == len(before) - 1
    fresh.close()


def test_a_gang_is_submitted_watched_and_stopped(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/new") as page:
        page.get_by_label("Command").fill("sleep 600")
        page.get_by_label("Name", exact=True).fill("gang")
        page.get_by_label("Kernels").fill("4")
        page.get_by_label("GPU of each").fill("8")
        page.get_by_text("would start now").wait_for()
        assert "--size 4" in text_of(page, ".actions .copy")
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("heading", name="gang").wait_for()
        page.locator(".bar .state", has_text="running").wait_for()
        assert page.get_by_role("table", name="states over time").get_by_role("row").count() == 5
        assert [" of 1\t" in row for row in rows_of_use(page, cores=4)] == [False, True, True, True, True]
        page.get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        page.locator(".bar .state", has_text=re.compile("terminated|failure|success|cancelled")).wait_for()


def test_what_was_submitted_is_not_planned_any_more(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/new") as page:
        # Neither is answered.
        page.route(re.compile("/api/v1/sessions(/plan)?$"), lambda _route: None)
        page.get_by_label("Name", exact=True).fill("sent")
        with page.expect_request("**/sessions/plan") as plan:
            page.get_by_label("Command").fill("true")
        with page.expect_event("requestfailed") as given_up:
            page.get_by_role("button", name="Submit").click()
        # On a busy server it would come after the session, and find its own name taken.
        assert given_up.value == plan.value


def test_a_session_moves_the_lists_without_reload_and_the_drawer_says_why(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/sessions") as page:
        page.get_by_role("heading", name="Sessions").wait_for()
        dashboard.sokovan("run", "-d", "--name", "bigone", "--size", "64", "--gpus", "8", "--", "sleep", "600")
        dashboard.sokovan("wait", "bigone", "--until", "running")
        dashboard.sokovan("run", "-d", "--name", "queued", "--gpus", "8", "--", "sleep", "600")
        page.get_by_role("row", name=re.compile("pending queued")).click()
        drawer = page.get_by_role("complementary", name="session queued")
        drawer.get_by_role("list", name="checks").wait_for()
        assert "open=" in page.url
        page.keyboard.press("Escape")
        drawer.wait_for(state="detached")
        page.keyboard.press("/")
        page.keyboard.type("queued")
        page.keyboard.press("Escape")
        page.get_by_role("row", name=re.compile("bigone")).wait_for(state="detached")
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.get_by_role("button", name="Stop 1 session").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("row", name=re.compile("cancelled queued")).wait_for()
        dashboard.sokovan("stop", "bigone", "--yes")


def test_the_map_is_walked_by_keys_and_an_agent_is_drained(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/cluster") as page:
        page.get_by_role("grid", name=re.compile("map of")).focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        drawer = page.locator(".drawer")
        drawer.wait_for()
        name = text_of(page, ".drawer h2")
        assert f"agent={name}" in page.url
        drawer.get_by_role("button", name="Drain", exact=True).click()
        page.locator(".impact", has_text=re.compile("8 free devices .* 504 of 512 .*64 of 65 agents")).wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Drain", exact=True).click()
        drawer.locator(".state", has_text="draining").wait_for()
        assert dashboard.sokovan("agent", "show", name, "--json").count('"draining"') == 1
        dashboard.sokovan("agent", "undrain", name)
        drawer.locator(".state", has_text="alive").wait_for()
        assert len(dashboard.sokovan("agent", "devices", name, "-o", "name").split()) == 8


def test_a_faulty_device_is_counted_and_its_fault_named(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/sessions") as page:
        fleet = page.evaluate(scripts.READS, "fleet")
        page.add_init_script(scripts.TELLS_A_FAULT % FAULT)
        page.reload()
        page.evaluate(scripts.GOES, f"/ui/cluster?agent={fleet['agents'][fleet['device_agent'][0]]}")
        page.get_by_role("list", name="faulty devices").get_by_text(FAULT).wait_for()
        page.get_by_text("1 faulty", exact=True).wait_for()
        assert violations(page, *RULES) == []
        page.evaluate(scripts.GOES, "/ui/cluster?view=table")
        page.get_by_text("of 8 devices (1 faulty)").wait_for()
        name = fleet["agents"][fleet["device_agent"][0]]
        page.evaluate(scripts.GOES, "/ui/")
        attention = page.get_by_role("region", name="needs attention")
        attention.get_by_role("listitem").filter(has_text=name).get_by_text(
            f"device {fleet['device'][0]}: {FAULT}"
        ).wait_for()
        assert violations(page, *RULES) == []


def test_queues_show_what_they_use_and_wait_for(dashboard: Dashboard) -> None:
    dashboard.sokovan("queue", "set", "research", "--weight", "3")
    dashboard.sokovan("run", "-d", "--name", "shared", "--queue", "research", "--gpus", "2", "--", "sleep", "600")
    with dashboard.page("/ui/queues?slot=cuda.device") as page:
        row = page.locator("tr[data-queue=research]")
        row.locator("td", has_text=re.compile("^2$")).first.wait_for()
        assert row.locator("td").first.inner_text() == "3"
    used = {
        line.split()[1]: line.split()[2] for line in dashboard.sokovan("queue", "shares", "research").splitlines()[1:]
    }
    assert used["cuda.device"] == "2"
    dashboard.sokovan("stop", "shared", "--yes")


def test_first_use_from_a_code_to_the_end_of_a_session(dashboard: Dashboard) -> None:
    fresh = dashboard.context.browser.new_context()
    with dashboard.watched(fresh, dashboard.address()) as page:
        page.get_by_role("link", name="New session").click()
        page.get_by_label("Command").fill(f"sh -c 'printf \"{scripts.HOSTILE}\"; exec sleep 600'")
        page.get_by_label("Name", exact=True).fill("first")
        page.get_by_label("Labels of agents").fill(REAL)
        page.get_by_text("would start now").wait_for()
        page.get_by_text("What if it were submitted now").click()
        page.get_by_role("list", name="places").get_by_role("listitem").wait_for()
        page.get_by_role("button", name="Submit").click()
        page.locator(".bar .state", has_text="running").wait_for()
        log = page.get_by_label("output", exact=True)
        log.filter(has_text="gnp.exe").wait_for()
        # All of it is text, and nothing of it is obeyed.
        assert text_of(page, ".log pre").strip() == "red  \ufffd <script>alert(1)</script> \ufffdgnp.exe"
        assert page.title().endswith("Sokovan")
        assert log.locator("script").count() == 0
        page.get_by_role("button", name="Open a terminal in kernel 0").click()
        page.locator(TYPED).wait_for(state="attached")
        screen = page.get_by_label("screen of the terminal")
        page.keyboard.type("stty size; echo $((6 * 7)); printf '\\033[1;31mbold\\033[0m\\033]0;title\\007'")
        page.keyboard.press("Enter")
        screen.locator(".bold.f1", has_text="bold").wait_for()
        size = re.search(r"^(\d+) (\d+)\s+42\s", screen.inner_text(), re.MULTILINE)
        assert size is not None
        assert (int(size[1]) > 10, int(size[2]) > 60) == (True, True)
        assert page.title().endswith("Sokovan")
        assert violations(page, *RULES) == []
        page.get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        page.locator(".bar .state", has_text="cancelled").wait_for()
        page.get_by_role("link", name="Run again").click()
        page.get_by_text("would start now").wait_for()
        assert page.get_by_label("Labels of agents").input_value() == REAL
        page.get_by_text("kept from it:").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Or enter an API key").wait_for()
        assert violations(page, *RULES) == []
    fresh.close()


def test_a_session_is_run_again_with_all_of_its_request(dashboard: Dashboard) -> None:
    options = ("-e", "SEED=7", "--secret-env", "TOKEN=old-value", "-l", "team=vision", "--time-limit", "2h")
    dashboard.sokovan("run", "-d", "--name", "model", *options, "--cpus", "2", "--", "sleep", "600")
    with dashboard.page("/ui/sessions/model") as page:
        page.get_by_role("heading", name="Spec").click()
        request = page.get_by_label("request", exact=True)
        request.filter(has_text='SEED: "7"').wait_for()
        facts = page.locator("dl.facts").first.inner_text()
        assert "team=vision" in facts
        assert "2h" in facts
        assert "old-value" not in request.inner_text()
        assert violations(page, *RULES) == []
        page.get_by_role("link", name="Run again").click()
        page.get_by_label("Secret TOKEN").wait_for()
        page.get_by_text("would start now").wait_for()
        assert page.get_by_role("button", name="Submit").is_disabled()
        assert "sokovan session spec" in text_of(page, ".actions .copy")
        assert violations(page, *RULES) == []
        page.get_by_label("Name", exact=True).fill("model-2")
        page.get_by_label("Secret TOKEN").fill("new-value")
        page.get_by_role("button", name="Submit").click()
        page.get_by_role("heading", name="model-2").wait_for()
    first, second = (json.loads(dashboard.sokovan("session", "spec", name, "--json")) for name in ("model", "model-2"))
    assert second == {**first, "name": "model-2"}
    dashboard.sokovan("stop", "model", "model-2")


def test_a_terminal_has_colours_a_size_and_full_screen_programs(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "typed", "--where", REAL, "--", "sleep", "600")
    dashboard.sokovan("wait", "typed", "--until", "running")
    with dashboard.page("/ui/sessions/typed/terminal") as page:
        screen = page.get_by_label("screen of the terminal")
        page.locator(TYPED).wait_for(state="attached")
        page.keyboard.type("printf '\\033[?1049h\\033[2J\\033[5;1Hfull%s' screen; read line; printf '\\033[?1049l'")
        page.keyboard.press("Enter")
        screen.filter(has_text="fullscreen").wait_for()
        assert "printf" not in screen.inner_text()
        page.keyboard.press("Enter")
        screen.filter(has_text="printf").wait_for()
        page.set_viewport_size({"width": 700, "height": 500})
        page.keyboard.type("stty size; sleep 600")
        page.keyboard.press("Enter")
        page.locator(".terminal-row", has_text=re.compile(r"^1\d \d\d$")).wait_for()
        page.keyboard.press("Control+c")
        page.keyboard.type("exit 3")
        page.keyboard.press("Enter")
        page.get_by_text("The shell ended with 3.").wait_for()
        assert violations(page, *RULES) == []
    dashboard.sokovan("stop", "typed", "--yes")


def test_ended_sessions_are_in_the_history_and_on_the_timeline(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "--name", "over", "--gpus", "2", "--", "sleep", "2")
    with dashboard.page("/ui/timeline?span=15m&q=over") as page:
        row = page.locator("[data-session=over]")
        row.locator(".gantt-bar.held", has_text=re.compile(rf"^2 GPU {LASTED}$")).wait_for()
        assert "at most" in text_of(page, "figcaption")
    with dashboard.page("/ui/history?name=over") as page:
        cells = page.get_by_role("row", name=re.compile("success over")).get_by_role("cell")
        cells.first.wait_for()
        assert re.fullmatch(LASTED, cells.nth(6).inner_text())
        page.get_by_label("Name").fill("nothing-of-this-name")
        dashboard.sokovan("run", "--name", "meanwhile", "--cpus", "0.1", "--", "true")  # the page is read again
        page.keyboard.press("Enter")
        page.get_by_text("No session that ended matches the filters.").wait_for()
        assert "name=nothing-of-this-name" in page.url


def test_a_deployment_is_created_asked_promoted_rolled_back_and_deleted(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/deployments") as page:
        page.get_by_role("link", name="New deployment").click()
        page.get_by_label("Name", exact=True).fill("chatty")
        # All replicas fit on the agent that runs programs; simulated ones answer nothing.
        page.get_by_label("CPU of each").fill("0.1")
        page.get_by_role("button", name="Show the command of a replica").click()
        page.locator(".badge", has_text="Each replica runs").wait_for()
        assert "sokovan serve toy --name chatty" in text_of(page, ".actions .copy")
        assert violations(page, *RULES) == []
        page.get_by_role("button", name="Serve", exact=True).click()
        page.get_by_role("heading", name="chatty").wait_for()
        tiles = page.get_by_role("list", name="replicas").get_by_role("listitem")
        tiles.first.locator(".state", has_text="active").wait_for()
        page.get_by_label("question").fill("<b>hello</b>")
        page.keyboard.press("Enter")
        chat = page.get_by_role("log", name="chat")
        chat.locator(".assistant p", has_text=re.compile(r"\w")).wait_for()
        page.get_by_role("button", name="Begin anew").wait_for()
        assert chat.locator(".user p").inner_text() == "<b>hello</b>"
        page.get_by_role("textbox", name="replicas").fill("2")
        page.get_by_role("button", name="Scale", exact=True).click()
        tiles.nth(1).wait_for()
        until(lambda: '"replicas_min": 2' in dashboard.sokovan("deployment", "show", "chatty", "--json"), what="scaled")
        form = page.get_by_role("form", name="new revision")
        form.get_by_label("Memory of each").fill("300MiB")
        form.get_by_label("Strategy").select_option("canary")
        form.get_by_role("button", name="Update", exact=True).click()
        page.get_by_role("status").filter(has_text="Revision 1 changes to 2 (canary").wait_for()
        page.get_by_role("button", name="Promote").click()
        asked = page.get_by_role("dialog")
        assert "sokovan deployment promote chatty" in asked.inner_text()
        asked.get_by_role("button", name="Promote", exact=True).click()
        page.get_by_role("status").filter(has_text="changes to").wait_for(state="detached")
        assert '"number": 2' in dashboard.sokovan("deployment", "show", "chatty", "--json")
        form.get_by_label("Memory of each").fill("310MiB")
        form.get_by_label("Strategy").select_option("canary")
        form.get_by_role("button", name="Update", exact=True).click()
        page.get_by_role("status").filter(has_text="Revision 2 changes to 3 (canary").wait_for()
        page.get_by_role("button", name="Roll back").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        page.get_by_role("status").filter(has_text="changes to").wait_for(state="detached")
        assert '"number": 2' in dashboard.sokovan("deployment", "show", "chatty", "--json")
        assert violations(page, *RULES) == []
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_role("heading", name="Deployments").wait_for()
        page.get_by_role("link", name="chatty").wait_for(state="detached")


def test_an_administrator_adds_a_user_who_sees_no_administration(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/admin") as page:
        page.get_by_role("heading", name="New user").wait_for()
        page.get_by_label("Name", exact=True).fill("ada")
        page.get_by_label("Domain", exact=True).fill("default")
        page.get_by_role("button", name="Create").click()
        page.get_by_role("row", name=re.compile("^ada default")).wait_for()
        assert "ada" in dashboard.sokovan("user", "ls", "-o", "name").split()
        page.get_by_role("button", name="Audit log").click()
        page.get_by_label("Object").fill("ada")
        page.keyboard.press("Enter")
        page.get_by_role("row", name=re.compile("user.* ada done")).wait_for()
        page.get_by_role("button", name="Keys").click()
        page.get_by_label("User").fill("ada")
        page.get_by_role("button", name="New key").click()
        token = page.locator(".notice code").inner_text()
    dashboard.sokovan(
        "booking",
        "create",
        "of-ada",
        "--from",
        "24h",
        "--for",
        "1h",
        "--agent",
        "r07n7",
        "--user",
        "ada",
        "--user",
        "admin",
    )
    fresh = dashboard.context.browser.new_context()
    with dashboard.watched(fresh, f"{dashboard.url}/ui/admin?tab=users", allowed=("403",)) as page:
        page.get_by_label("Or enter an API key").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("This is for administrators.").wait_for()
        assert page.evaluate(scripts.ADDS_A_USER) == 403
        page.get_by_role("button", name="Keys").click()
        row = page.get_by_role("row", name=re.compile("ada"))
        row.wait_for()
        assert row.count() == 1
        # Of a booking users see neither the others who may use it nor who has to leave for it.
        page.get_by_role("link", name="Bookings").click()
        row = page.get_by_role("row", name=re.compile("^of-ada booking begins in .* r07n7 user ada$"))
        row.get_by_role("link").click()
        page.locator(".facts").get_by_text("user ada", exact=True).wait_for()
        assert page.get_by_role("heading", level=2).count() == 0
    fresh.close()
    dashboard.sokovan("booking", "rm", "of-ada", "--yes")


def test_an_administrator_changes_and_removes_a_queue(dashboard: Dashboard) -> None:
    dashboard.sokovan("queue", "set", "edited", "--weight", "2")
    # A refused request is an error of the console.
    with dashboard.page("/ui/admin?tab=queues", allowed=("422",)) as page:
        row = page.get_by_role("row", name=re.compile("^edited"))
        row.get_by_role("button", name="Edit").click()
        page.get_by_role("heading", name="Change queue edited").wait_for()
        page.get_by_label("Weight").fill("7")
        page.get_by_label("Open").select_option("no")
        page.get_by_role("button", name="Change", exact=True).click()
        page.get_by_role("row", name=re.compile("^edited .* 7 no")).wait_for()
        assert '"weight": 7' in dashboard.sokovan("queue", "show", "edited", "--json")
        page.get_by_label("Name", exact=True).fill("not a name")
        page.get_by_role("button", name="Create").click()
        page.locator(".problem").wait_for()
        row.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        row.wait_for(state="detached")
        assert "edited" not in dashboard.sokovan("queue", "ls", "-o", "name").split()


def test_hostile_texts_are_shown_as_texts_and_break_no_page(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "nasty", "--cpus", "0.1", "--", "sh", "-c", "sleep 600", scripts.NASTY)
    dashboard.sokovan("wait", "nasty", "--until", "running")
    with dashboard.page("/ui/sessions/nasty") as page:
        command = page.locator(".facts code", has_text="sleep 600")
        command.wait_for()
        assert "<img src=x onerror=alert(1)>\ufffdgnp.exe" in command.inner_text()
        assert not page.evaluate(scripts.IS_TOO_WIDE)
        assert page.evaluate(scripts.STOPS_WITH_A_REASON, ["nasty", scripts.NASTY[:400]]) == 202
        page.locator(".bar .state", has_text="cancelled").wait_for()
        page.locator(".facts dd", has_text="\ufffdgnp.exe").nth(1).wait_for()
        for path in ("/ui/sessions?q=nasty", "/ui/history?name=nasty", "/ui/admin?tab=log&target=nasty"):
            page.evaluate(scripts.GOES, path)
            page.get_by_text("nasty").first.wait_for()
            assert page.locator("main img").count() == 0
            assert not page.evaluate(scripts.IS_TOO_WIDE)
            assert "\u202e" not in page.locator("main").inner_text()


def test_the_history_goes_on_page_by_page(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "paged", "--array", "0-59", "--cpus", "0.1", "--", "sleep", "600")
    dashboard.sokovan("stop", "paged", "--yes")
    dashboard.sokovan("wait", "paged", "--until", "ENDED")
    with dashboard.page("/ui/history") as page:
        rows = page.get_by_role("region", name="ended sessions").get_by_role("row")
        rows.nth(1).wait_for()
        first = rows.nth(1).inner_text()
        page.get_by_role("button", name="Older").click()
        page.get_by_role("button", name="Newest", disabled=False).wait_for()
        assert "cursor=" in page.url
        page.get_by_role("rowheader", name=first.split("\t")[1]).wait_for(state="detached")
        page.get_by_role("button", name="Newest").click()
        page.get_by_role("rowheader", name=first.split("\t")[1]).wait_for()


def test_what_a_drain_would_do_is_seen_before(dashboard: Dashboard) -> None:
    dashboard.sokovan("run", "-d", "--name", "fills", "--size", "64", "--gpus", "8", "--", "sleep", "600")
    dashboard.sokovan("wait", "fills", "--until", "running")
    dashboard.sokovan("run", "-d", "--name", "needs", "--gpus", "8", "--", "sleep", "600")
    # A refused request is an error of the console.
    with dashboard.page("/ui/what-if", allowed=("404",)) as page:
        page.get_by_label("Machines like this agent").fill("r01n1")
        page.get_by_label("How many to add").fill("1")
        assert "--add r01n1=1" in text_of(page, ".actions .copy")
        page.get_by_role("button", name="Compare").click()
        row = page.get_by_role("row", name=re.compile("^needs"))
        row.get_by_text("PLACED").wait_for()
        assert violations(page, *RULES) == []
        page.get_by_label("Agents to drain").fill("nowhere")
        page.get_by_role("button", name="Compare").click()
        page.locator(".problem", has_text="nowhere").wait_for()
    assert "PLACED" in dashboard.sokovan("what-if", "--add", "r01n1=1")
    dashboard.sokovan("stop", "fills", "needs", "--yes")


def test_the_palette_goes_anywhere_by_name_and_a_filter_is_saved(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/sessions?status=running") as page:
        page.get_by_label("name of this view").fill("mine")
        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Forget mine").wait_for()
        page.keyboard.press("Control+k")
        page.keyboard.type("r01n1")
        page.get_by_role("option", name=re.compile("agent r01n1$")).wait_for()
        assert violations(page, *RULES) == []
        page.keyboard.press("Enter")
        page.get_by_role("complementary", name="agent r01n1").wait_for()
        page.get_by_role("link", name="Sessions").click()
        page.get_by_role("button", name="mine", exact=True).click()
        page.get_by_role("button", name="Forget mine").click()
        page.get_by_role("button", name="Forget mine").wait_for(state="detached")
        assert "status=running" in page.url


def test_no_page_has_a_barrier_that_axe_knows(dashboard: Dashboard) -> None:
    # On the timeline each device was held for moments, one after the other.
    for name in ("moment-1", "moment-2", "moment-3"):
        dashboard.sokovan("run", "--name", name, "--size", "64", "--gpus", "8", "--", "sleep", "1")
    with dashboard.page() as page:
        for path, title in PAGES.items():
            page.evaluate(scripts.GOES, path)
            page.get_by_role("heading", name=title, exact=True).wait_for(timeout=LIMIT_MS)
            if "view=devices" in path:
                page.get_by_role("button", name=re.compile(r"^\d+ sessions: ")).first.click()
            page.get_by_label("theme").select_option("light")
            assert violations(page, *RULES) == [], path
            # Only colours differ.
            page.get_by_label("theme").select_option("dark")
            assert violations(page, "color-contrast", kind="rule") == [], path
        page.get_by_label("theme").select_option("auto")
