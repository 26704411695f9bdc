"""Logins over HTTP: what opens, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.domain.owners.login import LOGIN_CODE_S, LOGIN_IDLE_MS, LOGIN_LASTS_MS, LOGINS_MAX, Login, LoginCode
from tests.unit.api.api_harness import ADMIN, HOST, ApiHarness, add_key, api_harness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
ORIGIN = f"http://{HOST}"
PAGE = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
COOKIE = "sokovan-login-7646"


class Browser:
    """A browser that is logged in: its cookie, its proof, and the headers of a page's request."""

    def __init__(self, api: ApiHarness, answer: Any) -> None:
        assert answer.status_code == 201, answer.text
        self.api, self.view = api, answer.json()
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.proof = self.view["proof"]

    async def get(self, path: str = "/whoami", *, method: str = "GET", **changed: str) -> Any:
        headers = {"cookie": self.cookie, "x-sokovan-proof": self.proof, **PAGE}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        sent = {name: value for name, value in headers.items() if value}
        return await self.api.call(method, path, user=None, headers=sent)


async def logged_in(api: ApiHarness, user: str = NORTH) -> Browser:
    return Browser(api, await api.call("POST", "/logins", user=user, headers=PAGE))


async def code_of(api: ApiHarness, user: str = NORTH) -> str:
    return str((await api.call("POST", "/login-codes", user=user)).json()["code"])


async def exchanged(api: ApiHarness, code: str, **changed: str) -> Any:
    headers = {"authorization": f"Login-Code {code}", **PAGE, **changed}
    return await api.call("POST", "/logins", user=None, headers=headers)


@pytest.mark.slow
async def test_a_login_opens_what_its_key_opens(api: ApiHarness) -> None:
    browser = await logged_in(api)
    assert (await browser.get()).json()["user"] == NORTH
    assert browser.view["access_key"] == api.keys[NORTH]
    assert (await browser.get("/settings")).status_code in {403, 404}


@pytest.mark.slow
async def test_a_page_may_read_without_an_origin_as_browsers_do(api: ApiHarness) -> None:
    browser = await logged_in(api)
    assert (await browser.get(origin="")).status_code == 200
    assert (await browser.get("/sessions/none", method="DELETE", origin="")).status_code == 403


@pytest.mark.slow
async def test_the_cookie_is_for_the_api_of_this_port_and_for_no_script(api: ApiHarness) -> None:
    answer = await api.call("POST", "/logins", user=NORTH, headers=PAGE)
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert name == COOKIE
    assert {"HttpOnly", "SameSite=Strict", "Path=/api"} <= set(rest.split("; "))
    tls = await api.call("POST", "/logins", user=NORTH, headers={**PAGE, "origin": f"https://{HOST}"})
    name, _, rest = tls.headers["set-cookie"].partition("=")
    assert name == "__Host-sokovan-login"
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(rest.split("; "))


@pytest.mark.slow
async def test_one_half_alone_opens_nothing(api: ApiHarness) -> None:
    browser, other = await logged_in(api), await logged_in(api)
    stolen = {"cookie_alone": browser.get(x_sokovan_proof=""), "proof_alone": browser.get(cookie="")}
    mixed = {"other_proof": browser.get(x_sokovan_proof=other.proof), "other_cookie": browser.get(cookie=other.cookie)}
    for name, request in {**stolen, **mixed}.items():
        answer = await request
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://127.0.0.1:7647"},
        {"origin": "http://127.0.0.1"},
        {"origin": "http://localhost:7646"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": ""},
    ],
)
async def test_a_page_of_another_port_or_site_is_refused(api: ApiHarness, changed: dict[str, str]) -> None:
    answer = await (await logged_in(api)).get(**changed)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign-origin")


@pytest.mark.slow
async def test_a_socket_other_than_that_of_a_command_is_not_opened_by_a_login(api: ApiHarness) -> None:
    browser = await logged_in(api)
    headers = {"cookie": browser.cookie, "x-sokovan-proof": browser.proof, **PAGE}
    async with api.socket("/sessions/none/kernels/0/ports/80", user=None, headers=headers) as socket:
        assert (await socket.hear())["status"] == 401


@pytest.mark.slow
async def test_a_code_logs_in_once(api: ApiHarness) -> None:
    code = await code_of(api)
    browser = Browser(api, await exchanged(api, code))
    assert (await browser.get()).json()["user"] == NORTH
    again = await exchanged(api, code)
    assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")


@pytest.mark.slow
async def test_a_code_opens_nothing_else(api: ApiHarness) -> None:
    code = await code_of(api)
    for method, path in (("GET", "/whoami"), ("POST", "/login-codes"), ("GET", "/logins")):
        headers = {"authorization": f"Login-Code {code}", **PAGE}
        assert (await api.call(method, path, user=None, headers=headers)).status_code == 401
    wrong = code[:-1] + ("A" if code[-1] != "A" else "B")
    assert (await exchanged(api, wrong)).status_code == 401
    assert (await exchanged(api, code, origin="http://127.0.0.1:9999")).status_code == 403
    assert (await exchanged(api, code)).status_code == 201


async def aged(api: ApiHarness, name: str, *, created_ms: int = 0, used_ms: int) -> None:
    """Let a login have begun, and have been used, so much earlier."""

    async def work(unit: Any) -> None:
        login = await unit.catalog.get(Login, name)
        began_ms = login.created_ms - max(created_ms, used_ms)
        await unit.catalog.put(replace(login, created_ms=began_ms, used_ms=login.used_ms - used_ms))

    await api.cluster.store.run(work)
    api.app.state.context.authenticator.forget(api.keys[NORTH])


async def used_ms(api: ApiHarness, name: str) -> int:
    login = await api.cluster.store.read(lambda unit: unit.catalog.get(Login, name))
    return login.used_ms


@pytest.mark.slow
async def test_a_late_code_opens_nothing(api: ApiHarness) -> None:
    code = await code_of(api)

    async def work(unit: Any) -> None:
        stored = await unit.catalog.get(LoginCode, code.partition(".")[0])
        await unit.catalog.put(replace(stored, expires_ms=stored.expires_ms - LOGIN_CODE_S * 1000))

    await api.cluster.store.run(work)
    assert (await exchanged(api, code)).status_code == 401


@pytest.mark.slow
async def test_a_login_that_was_not_used_for_long_opens_nothing(api: ApiHarness) -> None:
    browser = await logged_in(api)
    name = browser.view["id"]
    await aged(api, name, used_ms=LOGIN_IDLE_MS - 60_000)
    before_ms = await used_ms(api, name)
    assert (await browser.get()).status_code == 200
    assert await used_ms(api, name) > before_ms, "a use begins the idle time anew"
    await aged(api, name, used_ms=LOGIN_IDLE_MS)
    assert (await browser.get()).status_code == 401


@pytest.mark.slow
async def test_a_login_in_use_ends_after_seven_days(api: ApiHarness) -> None:
    browser = await logged_in(api)
    await aged(api, browser.view["id"], created_ms=LOGIN_LASTS_MS - 60_000, used_ms=0)
    assert (await browser.get()).status_code == 200
    await aged(api, browser.view["id"], created_ms=60_000, used_ms=0)
    assert (await browser.get()).status_code == 401


@pytest.mark.slow
async def test_a_login_begins_no_other_one(api: ApiHarness) -> None:
    browser = await logged_in(api)
    for path in ("/logins", "/login-codes"):
        assert (await browser.get(path, method="POST")).status_code == 403


@pytest.mark.slow
async def test_a_login_ends_with_its_key(api: ApiHarness) -> None:
    key = await add_key(api, NORTH, named="short-lived")
    browser = await logged_in(api, "short-lived")
    assert (await browser.get()).status_code == 200
    assert (await api.call("DELETE", f"/keys/{key}", user=NORTH)).status_code == 204
    assert (await browser.get()).status_code == 401


@pytest.mark.slow
async def test_a_login_is_listed_and_ended_by_its_user_and_by_no_other(api: ApiHarness) -> None:
    browser = await logged_in(api)
    name = browser.view["id"]
    listed = (await browser.get("/logins?limit=500")).json()["items"]
    assert [one["id"] for one in listed if one["current"]] == [name]
    assert all("proof" not in one and one["user"] == NORTH for one in listed)
    assert name not in (await api.get("/logins?limit=500", user=SOUTH)).text
    assert (await api.call("DELETE", f"/logins/{name}", user=SOUTH)).status_code == 404
    ended = await browser.get(f"/logins/{name}", method="DELETE")
    assert (ended.status_code, "Max-Age=0" in ended.headers["set-cookie"]) == (204, True)
    assert (await browser.get()).status_code == 401
    assert (await api.call("DELETE", f"/logins/{name}", user=ADMIN)).status_code == 404
    assert {("login.create", name), ("login.remove", name)} <= {row[1:3] for row in await api.audited()}


@pytest.mark.slow
async def test_of_too_many_logins_the_one_that_was_not_used_longest_ends() -> None:
    async with api_harness() as api:
        first, second = await logged_in(api), await logged_in(api)
        await aged(api, second.view["id"], used_ms=3_600_000)
        for _ in range(LOGINS_MAX - 1):
            await logged_in(api)
        assert [(await one.get()).status_code for one in (first, second)] == [200, 401]


@pytest.mark.slow
async def test_the_store_holds_no_half_of_a_login_and_no_code(api: ApiHarness) -> None:
    code, browser = await code_of(api), await logged_in(api)

    async def dump(unit: Any) -> str:
        connection = unit.transaction.connection
        logins = (await connection.execute(sa.text("SELECT * FROM logins"))).all()
        return str([logins, (await connection.execute(sa.text("SELECT * FROM login_codes"))).all()])

    everything = await api.cluster.store.read(dump)
    assert browser.view["id"] in everything
    for secret in (browser.proof, browser.cookie.rpartition(".")[2], code.rpartition(".")[2]):
        assert secret not in everything


@pytest.mark.slow
async def test_guesses_count_as_those_of_keys() -> None:
    async with api_harness() as api:
        browser = await logged_in(api)
        answers = [(await browser.get(x_sokovan_proof="x" * 43)).status_code for _ in range(12)]
        assert answers == [401] * 10 + [429] * 2
        assert (await browser.get()).status_code == 200


@pytest.mark.slow
async def test_a_login_opens_a_command_and_its_proof_is_not_sent_back(api: ApiHarness) -> None:
    browser = await logged_in(api)
    await api.run("shown", NORTH)
    path, offered = "/sessions/shown/kernels/0/exec", f"sokovan-exec, sokovan-proof.{browser.proof}"
    sent = {"cookie": browser.cookie, "sec-websocket-protocol": offered, "origin": ORIGIN}
    async with api.socket(path, user=None, headers=sent) as socket:
        accepted = await socket.hear()
        assert (accepted["type"], accepted["subprotocol"]) == ("websocket.accept", "sokovan-exec")
        socket.say(json.dumps({"command": ["echo", "hi"]}))
        assert (await socket.hear())["bytes"] == b"echo hi\n"
    for changed, status in (
        ({"cookie": ""}, 401),
        ({"sec-websocket-protocol": "sokovan-exec"}, 401),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": ""}, 403),
    ):
        kept = {name: value for name, value in {**sent, **changed}.items() if value}
        async with api.socket(path, user=None, headers=kept) as socket:
            assert (await socket.hear())["status"] == status, changed
