"""A process that writes a configuration file again and again, to be killed while it does.

Arguments: the file, and how many keys each state has. It prints a line before its first write.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.ports.config import ConfigValue


def state(number: int, size: int) -> dict[str, ConfigValue]:
    """A configuration whose parts all name its number, so that a mixture shows."""
    return {"state": {f"key_{index}": number for index in range(size)}, "last": number}


async def main(path: Path, size: int) -> None:
    """Write states with rising numbers until the end."""
    store = TomlConfig(path, clock=SystemClock())
    tree = await store.read()
    last = tree.values.get("last", 0)
    print("writing", flush=True)  # noqa: T201  # the sign that the test waits for
    for number in count(last + 1 if isinstance(last, int) else 0):
        tree = await store.write(state(number, size), expected=tree.revision)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
