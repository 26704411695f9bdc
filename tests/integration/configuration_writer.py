"""A process that writes a configuration file again and again, to be killed while it does."""

from __future__ import annotations

from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.ports.config import ConfigValue


def state(number: int, size: int) -> dict[str, ConfigValue]:
    """A configuration whose parts all name its number, so that a mixture shows."""
    return {"state": {f"key_{index}": number for index in range(size)}, "last": number}


async def write_on(line: Connection, path: Path, size: int) -> None:
    """Write states of `size` keys with rising numbers until the end; the parent hears of the first."""
    store = TomlConfig(path, clock=SystemClock())
    tree = await store.read()
    last = tree.values.get("last", 0)
    line.send("writing")
    for number in count(last + 1 if isinstance(last, int) else 0):
        tree = await store.write(state(number, size), expected=tree.revision)
