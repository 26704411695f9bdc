"""Looks up object names at the server, within a time budget."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sokovan.cli.completion.name_cache import Name, NameCache, cache_folder
from sokovan.sdk.config import config_path, read_config
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.settings import ClientSettings, resolve

# Longest wait for the server after Tab.
BUDGET_S = 0.3


def names_of(kind: str, prefix: str, flags: Mapping[str, str | None]) -> list[Name]:
    """The names of a kind with a prefix. Raises ClientProblem.

    Fresh cached names are used if one matches; stale ones only if the server does not
    respond in time.
    """
    if kind == "context":
        return _matching([(name, one.url) for name, one in read_config(config_path()).contexts.items()], prefix)
    settings = resolve(flags)
    url, token = settings.credentials()
    cache = NameCache.of(cache_folder(os.environ), kind, url=url, token=token)
    found = _matching(cache.read(), prefix)
    if found and cache.is_fresh(SystemEnvironment().wall_s()):
        return found
    names = within(BUDGET_S, _request(kind, settings))
    if names is None:
        return found
    cache.write(names)
    return _matching(names, prefix)


def within(seconds: float, request: Callable[[], list[Name]]) -> list[Name] | None:
    """The result of a request; None if it fails or takes longer.

    Runs in a thread, since a DNS lookup has no timeout.
    """
    from threading import Thread  # noqa: PLC0415  # the cache does not need it

    answers: list[list[Name]] = []

    def work() -> None:
        with contextlib.suppress(Exception):
            answers.append(request())

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def _request(kind: str, settings: ClientSettings) -> Callable[[], list[Name]]:
    """Prepare a request; modules load here, so that loading does not count against the budget."""
    from sokovan.sdk.core.retries import RetryRule  # noqa: PLC0415  # loads only here, too
    from sokovan.sdk.endpoint import ServerEndpoint  # noqa: PLC0415  # loads only here, too
    from sokovan.sdk.sync.connection import Connection  # noqa: PLC0415  # the HTTP client loads only here

    endpoint = ServerEndpoint(*settings.credentials(), timeout_s=BUDGET_S, connect_s=BUDGET_S)
    connection, call = Connection(endpoint, rule=RetryRule(attempts_max=1)), _listing(kind)

    def request() -> list[Name]:
        try:
            found = {_name(one): _note(one) for one in connection.send(call).items}
        finally:
            connection.close()
        return [(name, note) for name, note in found.items() if name.isprintable() and " " not in name]

    return request


def _listing(kind: str) -> Any:
    from sokovan.sdk.core import catalog_calls, session_calls  # noqa: PLC0415  # loads only here, too
    from sokovan.sdk.core.states import FINAL, STATES  # noqa: PLC0415  # loads only here, too

    match kind:
        case "session":
            return session_calls.listing(session_calls.SessionListOptions())
        case "live-session":
            live = ",".join(state.lower() for state in STATES if state not in FINAL)
            return session_calls.listing(session_calls.SessionListOptions(status=live))
        case "waiting-session":
            return session_calls.listing(session_calls.SessionListOptions(status="pending"))
        case "agent":
            return catalog_calls.agents()
        case "deployment":
            from sokovan.sdk.core import deployment_calls  # noqa: PLC0415  # loads only here, too

            return deployment_calls.listing(deployment_calls.DeploymentListOptions())
        case "quota":
            return catalog_calls.POLICIES.listing()
        case _:
            return getattr(catalog_calls, f"{kind.replace('-', '_').upper()}S").listing()


def _name(one: Any) -> str:
    return str(getattr(one, "name", "") or one.id)


def _note(one: Any) -> str:
    return str(getattr(one, "status", "")).upper()


def _matching(names: Sequence[Name], prefix: str) -> list[Name]:
    return [(name, note) for name, note in names if name.startswith(prefix)]
