"""Sokovan: an orchestrator for AI compute.

    import sokovan

    session = sokovan.run("python train.py", gpus=8, size=4, topology="hard:rack")
    session.wait("RUNNING")

In a kernel, `sokovan.checkpoint(step)` reports that the work is saved.

The client is loaded on first access, so `import sokovan` is cheap. Its types
are in `__init__.pyi`, so that no layer below the client depends on it.
"""

from __future__ import annotations

__version__ = "0.1.0"

_MODULES = {
    "AsyncClient": "sokovan.sdk",
    "Client": "sokovan.sdk",
    "ClientProblem": "sokovan.sdk",
    "SessionHandle": "sokovan.sdk",
    "checkpoint": "sokovan.checkpoints",
    "eviction": "sokovan.checkpoints",
}


def run(command: object = (), **options: object) -> object:
    """Submit a session to the server of the current context and return its handle."""
    client: object = __getattr__("Client")
    return client().run(command, **options)  # type: ignore[operator]  # a class, loaded by its name


def __getattr__(name: str) -> object:
    """Load a public name on first access."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  # loaded on first access

    found: object = getattr(import_module(_MODULES[name]), name)
    return found
