"""Deployments, users and queues, managed in a real browser over a real server."""

from __future__ import annotations

import re

import pytest

from tests.browser.dashboard_rig import RULES, Dashboard, text_of, violations

pytestmark = pytest.mark.server

ADDS_A_USER = """() => fetch('/api/v1/users/eve', {
  method: 'PUT', body: JSON.stringify({name: 'eve', domain: 'default'}),
  headers: {'X-Sokovan-Proof': localStorage['sokovan-proof'], 'Content-Type': 'application/json'},
}).then((answer) => answer.status)"""


def test_a_deployment_is_created_asked_updated_rolled_back_and_deleted(dashboard: Dashboard) -> None:
    with dashboard.page("/ui/deployments") as page:
        page.get_by_role("link", name="New deployment").click()
        page.get_by_label("Name", exact=True).fill("chatty")
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
        page.get_by_role("button", name="Scale").click()
        tiles.nth(1).wait_for()
        assert '"replicas_min": 2' in dashboard.sokovan("deployment", "show", "chatty", "--json")
        form = page.get_by_role("form", name="new revision")
        form.get_by_label("Memory of each").fill("300MiB")
        form.get_by_label("Strategy").select_option("canary")
        form.get_by_role("button", name="Update", exact=True).click()
        page.get_by_role("status").filter(has_text="Revision 1 changes to 2 (canary").wait_for()
        page.get_by_role("button", name="Roll back").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        page.get_by_role("status").filter(has_text="changes to").wait_for(state="detached")
        assert '"number": 1' in dashboard.sokovan("deployment", "show", "chatty", "--json")
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
    fresh = dashboard.context.browser.new_context()
    with dashboard.watched(fresh, f"{dashboard.url}/ui/admin?tab=users", allowed=("403",)) as page:
        page.get_by_label("Or enter an API key").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("This is for administrators.").wait_for()
        assert page.evaluate(ADDS_A_USER) == 403
        page.get_by_role("button", name="Keys").click()
        row = page.get_by_role("row", name=re.compile("ada"))
        row.wait_for()
        assert row.count() == 1
    fresh.close()


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
