"""A malicious user on a running server: what a session can see and reach."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.embedded import Embedded
from tests.kernels import needs_sandbox

pytestmark = needs_sandbox

# Searches everything that it can read for the given folders, and everything it was given for secrets.
LOOKS = """
import json, os, sys, urllib.request, urllib.error
api, link, *folders = sys.argv[1:]
found = [os.path.join(place, name) for folder in folders for place, _, names in os.walk(folder) for name in names
         if not place.startswith(os.getcwd())]
variables = [name for process in os.listdir("/proc") if process.isdigit()
             for name in open(f"/proc/{process}/environ").read().split("\\0") if "KEY" in name or "TOKEN" in name]
def answer(address):
    try:
        return urllib.request.urlopen(address, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code
answers = {"api": answer(api + "/api/v1/sessions"), "link": answer(link)}
print(json.dumps({"files": found, "variables": variables, **answers}))
"""


@pytest.fixture(scope="module")
def seen(server: Embedded) -> dict[str, object]:
    """The findings of a kernel of an ordinary session."""
    about = server.about
    link = str(about["links"]).replace("ws://", "http://")
    folders = [str(server.data), str(server.folder / "config")]
    done = server.cli("run", "--workdir", "none", "--", "python", "-c", LOOKS, str(about["url"]), link, *folders)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_session_sees_nothing_of_the_server_but_its_own_work_folder(seen: dict[str, object]) -> None:
    assert seen["files"] == []


def test_a_session_has_no_key_in_its_variables(seen: dict[str, object]) -> None:
    assert seen["variables"] == []


def test_a_session_reaches_neither_the_api_nor_the_link_of_agents_without_a_key(seen: dict[str, object]) -> None:
    assert seen["api"] == 401
    assert seen["link"] in {401, 403, 404, 426}


def test_the_agent_says_what_isolates_its_kernels(server: Embedded) -> None:
    [agent] = json.loads(server.cli("agent", "ls", "--json").stdout)
    shown = json.loads(server.cli("agent", "show", agent["id"], "--json").stdout)
    assert shown["labels"]["sokovan.isolation"] == "sandbox"
    assert "sandbox by bubblewrap" in server.said
