"""Suggestions for unknown commands, options and values.

An unknown command is a typing error, or the name that another tool gives to what a command here does.
"""

from __future__ import annotations

from collections.abc import Sequence

_END = ("rm", "remove", "revoke", "stop")
_LIST = ("ls", "ps")
_MAKE = ("create", "add", "set")
_STOP = ("stop", "cancel", "rm", "down")
# The words of kubectl, Docker and Slurm; of the commands named, the first that exists is suggested.
_OTHER_TOOLS = {
    "add": _MAKE,
    "attach": ("shell",),
    "cordon": ("drain",),
    "create": _MAKE,
    "delete": _END,
    "deploy": ("serve",),
    "describe": ("show", "why"),
    "destroy": _END,
    "edit": ("set", "update"),
    "explain": ("why",),
    "get": ("show", *_LIST),
    "info": ("show", "status"),
    "inspect": ("show",),
    "job": ("session",),
    "jobs": _LIST,
    "kill": _STOP,
    "launch": ("run",),
    "list": _LIST,
    "new": _MAKE,
    "node": ("agent",),
    "nodes": ("agent",),
    "remove": _END,
    "sacct": ("usage",),
    "salloc": ("shell",),
    "sbatch": ("run",),
    "scancel": _STOP,
    "sinfo": ("agent",),
    "squeue": ("ps",),
    "srun": ("run",),
    "ssh": ("shell",),
    "start": ("run", "up"),
    "submit": ("run",),
    "terminate": _STOP,
    "top": ("stats", "status"),
    "uncordon": ("undrain",),
    "update": ("set",),
}


def suggested_command(word: str, known: Sequence[str]) -> str:
    """The known command that was most likely meant, else nothing."""
    named = next((name for name in _OTHER_TOOLS.get(word, ()) if name in known), "")
    return named or closest(word, known)


def closest(word: str, known: Sequence[str]) -> str:
    """The known word with the most similar spelling, else nothing."""
    from difflib import get_close_matches  # noqa: PLC0415  # only after a mistake

    return next(iter(get_close_matches(word, known, n=1)), "")
