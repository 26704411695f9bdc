"""The gateway: decides by path, key and model which route a request is for."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from sokovan.proxy.accounts.key_verdicts import UnknownKey
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.proxy.http.heads import RequestHead
from sokovan.proxy.inference_call import INFERENCE_PATHS
from sokovan.proxy.routing.route_state import RouteState
from sokovan.proxy.routing.table_state import may_use
from sokovan.wire.serving.route_table import KeyEntry

HEALTH_PATH, READY_PATH, METRICS_PATH = b"/-/health", b"/-/ready", b"/-/metrics"
_MODELS_PATH = b"/v1/models"
_RAW_PREFIX = b"/d/"
_REPEATABLE = frozenset({b"GET", b"HEAD"})


class OwnAnswer(NamedTuple):
    """A response of the proxy itself."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"


class Inference(NamedTuple):
    """A call of the OpenAI API; its route follows from the model in its body."""

    key: KeyEntry | None
    path: bytes


class Passage(NamedTuple):
    """A request for a route by its name, with the rest of its target."""

    key: KeyEntry | None
    route: RouteState[Any]
    target: bytes


def destination(
    context: ProxyContext, head: RequestHead, *, local: bool
) -> Inference | Passage | OwnAnswer | ProxyRefusal | UnknownKey:
    """The destination of a request by its head; `local`: from this machine."""
    path = head.target.partition(b"?")[0]
    if path.startswith(b"/-/"):
        # Behind another proxy on this machine every client has a local address.
        direct = not (head.field(b"x-forwarded-for") or head.field(b"forwarded"))
        return _own(context, path, local=local and direct)
    key = key_of(context, head)
    if key is not None and not isinstance(key, KeyEntry):
        return key
    if path in INFERENCE_PATHS:
        return Inference(key, path) if head.method == b"POST" else _not_allowed(b"POST")
    if path == _MODELS_PATH or path.startswith(_MODELS_PATH + b"/"):
        return _models(context, key, path) if head.method in _REPEATABLE else _not_allowed(b"GET")
    if path.startswith(_RAW_PREFIX):
        return _passage(context, head, key)
    return ProxyRefusal(404, "unknown-path", "the gateway serves /v1/... and /d/DEPLOYMENT/...")


def route_of(context: ProxyContext, key: KeyEntry | None, model: str) -> RouteState[Any] | ProxyRefusal:
    """The route that serves a model for a key.

    One that the key may not use is as unknown as one that does not exist.
    """
    named = context.table.named(model)
    if "/" in model:
        # A key lists names of models without their project.
        usable = [route for route in named if may_use(key, route.entry, model.removeprefix(f"{route.entry.project}/"))]
    else:
        usable = [route for route in named if may_use(key, route.entry, model)]
    if len(usable) == 1:
        return usable[0]
    if usable:
        return _ambiguous(model, usable)
    if key is None:  # whether the name exists is not said without a key
        return _no_key()
    return ProxyRefusal(404, "model_not_found", f"the model {model[:200]!r} does not exist", param="model")


def _ambiguous(model: str, routes: list[RouteState[Any]]) -> ProxyRefusal:
    names = sorted({f"{route.entry.project}/{model}" for route in routes})
    how = f"use one of {', '.join(names[:10])}"
    if len(names) < len(routes):
        paths = sorted(f"/d/{route.entry.name}/..." for route in routes)
        how = f"use {' or '.join(paths[:10])}, or give them different names"
    return ProxyRefusal(400, "ambiguous-model", f"several deployments serve {model!r}; {how}", param="model")


def repeatable(head: RequestHead, *, inference: bool) -> bool:
    """Whether a request may be sent twice."""
    return head.method in _REPEATABLE or inference or bool(head.field(b"idempotency-key"))


def _no_key() -> ProxyRefusal:
    return ProxyRefusal(401, "no-key", "no API key; send Authorization: Bearer KEY")


def _not_allowed(method: bytes) -> ProxyRefusal:
    return ProxyRefusal(405, "method-not-allowed", f"use {method.decode()}")


def key_of(context: ProxyContext, head: RequestHead) -> KeyEntry | ProxyRefusal | UnknownKey | None:
    """The key of a request, or why it is not valid; None if it has none."""
    authorization, secret = head.known.get(b"authorization"), head.known.get(b"x-api-key")
    if authorization is not None:
        if secret is not None:
            return ProxyRefusal(400, "two-keys", "a request has one API key")
        scheme, _, secret = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return ProxyRefusal(401, "invalid-key", "send the key as Authorization: Bearer KEY")
    if secret is None:
        return None
    return context.key_of(secret.strip())


def _own(context: ProxyContext, path: bytes, *, local: bool) -> OwnAnswer | ProxyRefusal:
    if path == HEALTH_PATH:
        return OwnAnswer(b'{"status":"ok"}')
    if path == READY_PATH:
        if context.draining or not context.table.epoch:
            return ProxyRefusal(503, "not-ready", "the proxy is stopping" if context.draining else "no route table yet")
        return OwnAnswer(b'{"status":"ready"}')
    if path == METRICS_PATH and local:
        return OwnAnswer(context.metrics(), content_type=b"text/plain; version=0.0.4; charset=utf-8")
    return ProxyRefusal(404, "unknown-path", "the gateway serves /v1/... and /d/DEPLOYMENT/...")


def _models(context: ProxyContext, key: KeyEntry | None, path: bytes) -> OwnAnswer | ProxyRefusal:
    if path != _MODELS_PATH:
        model = path[len(_MODELS_PATH) + 1 :].decode(errors="replace")
        route = route_of(context, key, model)
        return route if isinstance(route, ProxyRefusal) else OwnAnswer(msgspec.json.encode(_model(route, model)))
    if key is None and not any(True for _ in context.table.usable_by(None)):
        return _no_key()
    found = {
        name: _model(route, name)
        for route in context.table.usable_by(key)
        for name in (route.entry.models or (route.entry.name,))
        if may_use(key, route.entry, name)
    }
    return OwnAnswer(msgspec.json.encode({"object": "list", "data": [found[name] for name in sorted(found)]}))


def _model(route: RouteState[Any], name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": route.entry.project}


def _passage(context: ProxyContext, head: RequestHead, key: KeyEntry | None) -> Passage | ProxyRefusal:
    whole = head.target[len(_RAW_PREFIX) :]
    cut = next((at for at, one in enumerate(whole) if one in b"/?"), len(whole))
    name, rest = whole[:cut].decode(errors="replace"), whole[cut:]
    table = context.table
    found = (
        [table.routes[name]] if name in table.routes else [one for one in table.named(name) if one.entry.name == name]
    )
    usable = [route for route in found if may_use(key, route.entry)]
    if len(usable) == 1:
        refused = _refusal_of_raw(key, usable[0])
        return refused or Passage(key, usable[0], rest if rest.startswith(b"/") else b"/" + rest)
    if usable:
        return ProxyRefusal(400, "ambiguous-name", f"several deployments are called {name!r}; use the id of one")
    if key is None:
        return _no_key()
    return ProxyRefusal(404, "unknown-deployment", f"there is no deployment {name[:200]!r}")


def _refusal_of_raw(key: KeyEntry | None, route: RouteState[Any]) -> ProxyRefusal | None:
    """Refuse keys with limits that hold for parsed requests only; the body of these is not read."""
    if key is None:
        return None
    if key.limits.budgeted or key.limits.tokens_per_minute is not None:
        return ProxyRefusal(403, "token-limited-key", "tokens of this key are limited, and counted at /v1 only")
    if key.models and not set(route.entry.models or (route.entry.name,)) <= set(key.models):
        return ProxyRefusal(403, "model-limited-key", "models of this key are limited, and checked at /v1 only")
    return None
