"""`sokovan status` and `sokovan down`: the server on this machine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sokovan.cli.commands.options import Flag
from sokovan.cli.errors import usage_error
from sokovan.cli.exit_codes import NOT_FOUND, OK, UNREACHABLE
from sokovan.cli.formatting import NONE, duration
from sokovan.cli.output import as_json, print_data, print_status
from sokovan.sdk.environment import SystemEnvironment

ANSWER_LIMIT_S = 5.0
# More sessions are not counted: status stays fast on a server with many.
COUNTED_MAX = 1000


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The server of a data folder.

    Counts are by state; `note` says why they are missing. `probes` is the URL of the health
    and the metrics of a coordinator.
    """

    running: bool
    data: str
    url: str = ""
    probes: str = ""
    gateway: str = ""
    pid: int | None = None
    version: str = ""
    uptime_s: int | None = None
    log: str = ""
    agents: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    note: str = ""


def status(*, data: Path | None = None, json: Flag = False) -> int:
    """Show whether the server on this machine runs.

    Counts are those of sessions that have not ended, at most 1000 of them. Exit
    codes: 0 it runs, 3 it does not, 7 it runs and does not respond.

    For example:
      sokovan status
      sokovan status --json

    Parameters
    ----------
    data
        Folder of the server's state; default: in your data folder.
    json
        Print JSON instead of text.
    """
    found = _look(_root(data))
    if json:
        print_data(as_json(asdict(found)))
    elif not found.running:
        print_data(f"sokovan is not running, data in {found.data}")
    else:
        _show(found)
    return OK if found.running and not found.note else UNREACHABLE if found.running else NOT_FOUND


def down(*, data: Path | None = None, timeout: float = 60.0) -> int:
    """Stop the server on this machine.

    Waits until it has ended. Running kernels continue, and the next start adopts
    them. Without a running server there is nothing to do.

    For example:
      sokovan down
      sokovan down --timeout 10

    Parameters
    ----------
    data
        Folder of the server's state; default: in your data folder.
    timeout
        Seconds to wait for its end; default: 60.
    """
    if not 0 < timeout <= 3600:
        raise usage_error(f"--timeout {timeout:g} is not between 0 and 3600", hint="use seconds: --timeout 60")
    from sokovan.entrypoints.background.server_process import stop_server  # noqa: PLC0415  # used only here

    root = _root(data)
    if stop_server(root, timeout_s=timeout, echo=print_status) is None:
        print_status(f"sokovan is not running, data in {root}; nothing to do")
    else:
        print_status("stopped; running kernels continue, and the next sokovan up adopts them")
    return OK


def _root(data: Path | None) -> Path:
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # used only here

    return (data or data_home(os.environ)).absolute()


def _look(root: Path) -> LocalServer:
    from sokovan.entrypoints.embedded.data_folder import server_of  # noqa: PLC0415  # used only here

    about = server_of(root)
    if about is None:
        return LocalServer(running=False, data=str(root))
    began_ms = about.get("started_at_ms")
    found = LocalServer(
        running=True,
        data=str(root),
        url=str(about.get("url")),
        probes=str(about.get("probes", "")),
        gateway=str(about.get("gateway", "")),
        pid=about["pid"],
        version=str(about.get("version")),
        uptime_s=max(0, int(SystemEnvironment().wall_s() - began_ms / 1000)) if isinstance(began_ms, int) else None,
        log=str(root / "logs" / "sokovan.log"),
    )
    return replace(found, **_counts(found.url, root)) if found.url else found  # a coordinator serves no API


def _counts(url: str, root: Path) -> dict[str, Any]:
    """Agents and live sessions by state, asked with the administrator's key of the folder."""
    from sokovan.sdk.core.states import FINAL, STATES  # noqa: PLC0415  # used only here
    from sokovan.sdk.errors import ClientProblem  # noqa: PLC0415  # used only here
    from sokovan.sdk.sync.client import Client  # noqa: PLC0415  # the HTTP client loads only here

    live = ",".join(state.lower() for state in STATES if state not in FINAL)
    try:
        token = (root / "token").read_text(encoding="ascii").strip()
        with Client(url, token, timeout_s=ANSWER_LIMIT_S) as client:
            agents = Counter(agent.status.upper() for agent in client.agents.list())
            listed = client.sessions.list(status=live, limit=COUNTED_MAX)
            sessions = Counter(session.status.upper() for session in listed)
    except (ClientProblem, OSError, ValueError) as problem:
        return {"note": f"the server does not respond: {problem}"}
    return {"agents": dict(sorted(agents.items())), "sessions": dict(sorted(sessions.items()))}


def _show(found: LocalServer) -> None:
    facts = {
        "url": found.url or NONE,
        **({"probes": found.probes} if found.probes else {}),
        "gateway": found.gateway or NONE,
        "pid": str(found.pid),
        "version": found.version,
        "uptime": duration(found.uptime_s) if found.uptime_s is not None else NONE,
        "data": found.data,
        "log": found.log,
        "agents": found.note or _in_words(found.agents),
        "sessions": found.note or _in_words(found.sessions),
    }
    print_data("sokovan is running")
    for name, value in facts.items():
        print_data(f"  {name:10}{value}")


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
