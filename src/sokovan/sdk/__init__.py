"""The Python client, sync and async, with the names of the command line.

The SDK never prints. Modules load lazily: `sokovan.sdk.config` alone does not load
the HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sokovan.sdk.aio.client import AsyncClient
    from sokovan.sdk.errors import ApiProblem, ClientProblem
    from sokovan.sdk.sync.client import Client
    from sokovan.sdk.sync.handle import SessionHandle

__all__ = ["ApiProblem", "AsyncClient", "Client", "ClientProblem", "SessionHandle"]

_MODULES = {
    "ApiProblem": "sokovan.sdk.errors",
    "AsyncClient": "sokovan.sdk.aio.client",
    "Client": "sokovan.sdk.sync.client",
    "ClientProblem": "sokovan.sdk.errors",
    "SessionHandle": "sokovan.sdk.sync.handle",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first access."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
