"""Usage that an ended process of a proxy left in its folder."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from sokovan.entrypoints.proxies.folder_lock import holder_of
from sokovan.entrypoints.proxies.proxy_folder import USAGE_FILE, ProxyFolder, ProxyFolderInUse, has_usage
from sokovan.ports.environment import Clock
from sokovan.proxy.control.control_link import ControlLink
from sokovan.proxy.control.manager_calls import ManagerAway
from sokovan.wire.serving.serving_codec import MalformedMessage

LOOK_S = 5.0


async def hand_in_left_usage(root: Path, link: ControlLink, clock: Clock) -> None:
    """Look for such usage in all folders of a proxy and send it, until cancelled."""
    while True:
        for folder in await asyncio.to_thread(_left, root):
            await _hand_in(folder, link)
        await clock.sleep(LOOK_S)


def _left(root: Path) -> list[Path]:
    folders = sorted(path.parent for path in root.rglob(USAGE_FILE))
    return [one for one in folders if holder_of(one) is None and has_usage(one)]


async def _hand_in(root: Path, link: ControlLink) -> None:
    """Send what one folder has, under its own identity and numbers: it is stored once."""
    # Another process may have taken it up since; a folder or a manager that is away now is tried again.
    with contextlib.suppress(ProxyFolderInUse, ManagerAway, MalformedMessage, OSError):
        folder = await asyncio.to_thread(ProxyFolder, root)
        try:
            while folder.ledger.entries and await link.hand_in(folder.identity, folder.ledger):
                await asyncio.to_thread(folder.save_usage)
        finally:
            folder.close()
