"""The names that a server knows, if it says so in time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sokovan.cli.completion.name_cache import Name, NameCache, cache_folder
from sokovan.sdk.config import config_path, read_config
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.settings import ClientSettings, resolve

# Nobody who pressed Tab waits longer for a server.
BUDGET_S = 0.3


def names_of(kind: str, prefix: str, flags: Mapping[str, str | None]) -> list[Name]:
    """What there is of a kind and begins with the prefix. Raises ClientProblem.

    What was told a moment ago is believed if it knows such a name; what is older, only
    if the server does not answer in time.
    """
    if kind == "context":
        return _matching([(name, one.url) for name, one in read_config(config_path()).contexts.items()], prefix)
    settings = resolve(flags)
    url, token = settings.credentials()
    memory = NameCache.of(cache_folder(os.environ), kind, url=url, token=token)
    kept = memory.recall()
    found = _matching(kept, prefix)
    if found and memory.is_fresh(SystemEnvironment().wall_s()):
        return found
    told = within(BUDGET_S, _question(kind, settings))
    if told is None:
        return found
    memory.keep(told)
    return _matching(told, prefix)


def within(seconds: float, ask: Callable[[], list[Name]]) -> list[Name] | None:
    """What somebody answers in this time; None if that fails or takes longer.

    A thread, since nothing else ends the wait for a name server that is away.
    """
    from threading import Thread  # noqa: PLC0415  # what is in the cache has no need of it

    answers: list[list[Name]] = []

    def work() -> None:
        with contextlib.suppress(Exception):
            answers.append(ask())

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def _question(kind: str, settings: ClientSettings) -> Callable[[], list[Name]]:
    """What is left is the server's part: loading our own does not count against its time."""
    from sokovan.sdk.core.retries import RetryRule  # noqa: PLC0415  # loads only here, too
    from sokovan.sdk.endpoint import ServerEndpoint  # noqa: PLC0415  # loads only here, too
    from sokovan.sdk.sync.connection import Connection  # noqa: PLC0415  # the HTTP client loads only here

    endpoint = ServerEndpoint(*settings.credentials(), timeout_s=BUDGET_S, connect_s=BUDGET_S)
    connection, call = Connection(endpoint, rule=RetryRule(attempts_max=1)), _listing(kind)

    def ask() -> list[Name]:
        try:
            found = {_name(one): _note(one) for one in connection.send(call).items}
        finally:
            connection.close()
        return [(name, note) for name, note in found.items() if name.isprintable() and " " not in name]

    return ask


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
