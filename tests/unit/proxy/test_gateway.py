"""The gateway finds the route of a request, and tells nothing about others."""

from __future__ import annotations

import json

import pytest

from sokovan.wire.serving.route_table import KeyLimits, RouteEntry
from tests.unit.proxy.running_proxy import (
    body_of,
    call,
    code_of,
    endpoint_of,
    engines,
    get,
    json_answer,
    key_of,
    proxy_with,
    route_of,
    status_of,
    table_of,
)

OTHER = route_of(deployment_id="deployment-2", name="other", models=("other", "org/other-7b"), project="research")


def for_model(model: str) -> bytes:
    return call(body=json.dumps({"model": model}).encode())


async def test_the_models_of_a_key_are_listed_and_no_others() -> None:
    keys = (key_of(), key_of(b"both", key_id="key-2", deployments=("deployment-1", "deployment-2")))
    async with proxy_with(table_of(route_of(), OTHER, keys=keys)) as proxy:
        one, both = await proxy.send(get("/v1/models")), await proxy.send(get("/v1/models", key=b"both"))

        assert [model["id"] for model in json.loads(body_of(one))["data"]] == ["chat"]
        assert [model["id"] for model in json.loads(body_of(both))["data"]] == ["chat", "org/other-7b", "other"]
        single = await proxy.send(get("/v1/models/org/other-7b", key=b"both"))
        assert json.loads(body_of(single))["owned_by"] == "research"


async def test_the_key_of_one_deployment_does_not_see_another() -> None:
    async with proxy_with(table_of(route_of(), OTHER)) as proxy:
        for request in (for_model("other"), for_model("research/other"), for_model("none"), get("/v1/models/other")):
            answer = await proxy.send(request)
            assert (status_of(answer), code_of(answer)) == (404, "model_not_found")
        assert status_of(await proxy.send(get("/d/other/x"))) == 404
        assert status_of(await proxy.send(get("/d/deployment-2/x"))) == 404


async def test_without_a_key_only_public_deployments_are_served() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine), access="public"), OTHER)) as proxy,
    ):
        assert status_of(await proxy.send(call(key=b""))) == 200
        for path in ("/d/other/x", "/d/none/x"):
            assert status_of(await proxy.send(get(path, key=b""))) == 401
        answer = await proxy.send(call(body=b'{"model":"other"}', key=b""))
        assert (status_of(answer), code_of(answer)) == (401, "no-key")
        models = await proxy.send(get("/v1/models", key=b""))
        assert [model["id"] for model in json.loads(body_of(models))["data"]] == ["chat"]


async def test_a_name_in_two_projects_needs_its_project() -> None:
    twin = route_of(deployment_id="deployment-2", project="research")
    keys = (key_of(deployments=("deployment-1", "deployment-2")),)
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)), twin, keys=keys)) as proxy,
    ):
        answer = await proxy.send(for_model("chat"))
        assert (status_of(answer), code_of(answer)) == (400, "ambiguous-model")
        assert b"default/chat, research/chat" in answer
        assert status_of(await proxy.send(for_model("default/chat"))) == 200
        assert code_of(await proxy.send(get("/d/chat/x"))) == "ambiguous-name"
        assert status_of(await proxy.send(get("/d/deployment-1/x"))) == 200


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (get("/v1/chat/completions"), 405, "method-not-allowed"),
        (call("/v1/models"), 405, "method-not-allowed"),
        (get("/"), 404, "unknown-path"),
        (get("/v1/files"), 404, "unknown-path"),
        (get("/-/other"), 404, "unknown-path"),
        (call(body=b""), 400, "invalid-body"),
        (call(body=b"{}"), 400, "invalid-body"),
        (call(body=b'{"model":7}'), 400, "invalid-body"),
        (call(body=b"[" * 10_000), 400, "invalid-body"),
        (call(key=b"ske_wrong"), 401, "invalid-key"),
        (call(more="X-Api-Key: ske_test\r\n"), 400, "two-keys"),
    ],
)
async def test_a_bad_request_is_refused_with_its_reason(request_bytes: bytes, status: int, code: str) -> None:
    async with proxy_with(table_of(route_of())) as proxy:
        answer = await proxy.send(request_bytes)

        assert (status_of(answer), code_of(answer)) == (status, code)


async def test_an_expired_key_is_refused() -> None:
    async with proxy_with(table_of(route_of(), keys=(key_of(expires_at_ms=1),))) as proxy:
        assert code_of(await proxy.send(call())) == "invalid-key"


async def test_a_revoked_key_is_refused_at_once() -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        assert status_of(await proxy.send(call())) == 200
        proxy.server.apply(table_of(version=2, base=1, keys=(), keys_removed=("key-1",)))

        assert status_of(await proxy.send(call())) == 401


@pytest.mark.parametrize(
    ("path", "target"),
    [("/d/chat", b"/"), ("/d/chat/", b"/"), ("/d/chat?x=1", b"/?x=1"), ("/d/chat/a/../b?c=d", b"/a/../b?c=d")],
)
async def test_the_rest_of_a_path_is_passed_on_as_it_is(path: str, target: bytes) -> None:
    async with (
        engines(json_answer()) as (engine,),
        proxy_with(table_of(route_of(endpoint_of(engine)))) as proxy,
    ):
        await proxy.send(get(path))

        assert engine.requests[0].line == b"GET " + target + b" HTTP/1.1"


async def test_a_proxy_is_ready_once_it_has_a_table() -> None:
    async with proxy_with(None) as proxy:
        assert status_of(await proxy.send(get("/-/health"))) == 200
        assert status_of(await proxy.send(get("/-/ready"))) == 503
        proxy.server.apply(table_of())
        assert status_of(await proxy.send(get("/-/ready"))) == 200
        metrics = await proxy.send(get("/-/metrics"))
        assert b"sokovan_proxy_table_version{} 1\n" in metrics


def test_a_route_is_private_unless_it_says_otherwise() -> None:
    assert RouteEntry(deployment_id="d", name="n", project="p", owner="o").access == "private"


@pytest.mark.parametrize("limits", [KeyLimits(budgeted=True), KeyLimits(tokens_per_minute=100)])
async def test_a_key_with_a_limit_of_tokens_cannot_avoid_their_count(limits: KeyLimits) -> None:
    keys = (key_of(limits=limits),)
    async with proxy_with(table_of(route_of(), keys=keys)) as proxy:
        answer = await proxy.send(call("/d/chat/v1/chat/completions"))

        assert (status_of(answer), code_of(answer)) == (403, "token-limited-key")


@pytest.mark.parametrize(("models", "status"), [(("chat",), 403), (("chat", "chat-lora"), 200), ((), 200)])
async def test_a_key_for_some_models_cannot_reach_others_by_the_name_of_their_deployment(
    models: tuple[str, ...], status: int
) -> None:
    async with engines(json_answer()) as (engine,):
        route = route_of(endpoint_of(engine), models=("chat", "chat-lora"))
        async with proxy_with(table_of(route, keys=(key_of(models=models),))) as proxy:
            answer = await proxy.send(call("/d/chat/v1/chat/completions"))

            assert status_of(answer) == status
            assert len(engine.requests) == (status == 200)
            assert status == 200 or code_of(answer) == "model-limited-key"


async def test_two_deployments_with_one_model_name_are_told_apart_by_their_own_names() -> None:
    second = route_of(deployment_id="deployment-2", name="second", models=("chat",))
    keys = (key_of(deployments=("deployment-1", "deployment-2")),)
    async with proxy_with(table_of(route_of(), second, keys=keys)) as proxy:
        answer = await proxy.send(for_model("chat"))

        assert code_of(answer) == "ambiguous-model"
        assert b"/d/chat/... or /d/second/..." in body_of(answer)
