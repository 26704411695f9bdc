"""The managers of an agent, which may change while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator

from sokovan.agent.link.manager_link import ManagerAddress
from sokovan.domain.errors import InvalidInput


class ManagerAddresses:
    """The addresses of the managers of a cluster, as these announce them.

    The first ones are those that the agent starts with. `made` gives the address of a URL; an
    agent that has not joined has none, and keeps its manager. `joined` stays whatever is
    announced.
    """

    def __init__(
        self,
        addresses: Iterable[ManagerAddress],
        made: Callable[[str], ManagerAddress] | None = None,
        *,
        joined: str = "",
    ) -> None:
        self._addresses = {one.url: one for one in addresses}
        self._made, self._joined = made, joined
        self._announced: dict[str, tuple[str, ...]] = {}
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[ManagerAddress]:
        return iter(tuple(self._addresses.values()))

    def __len__(self) -> int:
        return len(self._addresses)

    def announce(self, manager: str, urls: Iterable[str], linked: Collection[str]) -> list[str]:
        """Take over what a manager says of all managers; the URLs that are no addresses.

        Managers that are `linked` may have different lists, while one after the other is
        started anew: all that any of them names count.
        """
        named = tuple(urls)
        if self._made is None or not named:
            return []
        self._announced = {url: found for url, found in self._announced.items() if url in linked}
        self._announced[manager] = named
        wanted = dict.fromkeys(url for found in self._announced.values() for url in found)
        first = {self._joined: None} if self._joined else {}
        found, invalid = dict[str, ManagerAddress](), list[str]()
        for url in {**first, **wanted}:
            try:
                found[url] = self._addresses.get(url) or self._made(url)
            except InvalidInput:
                invalid.append(url)
        if found.keys() != self._addresses.keys():
            self._addresses = found
            self._changed.set()
        return invalid

    async def changed(self) -> None:
        """Wait until there are others than at the last call."""
        await self._changed.wait()
        self._changed.clear()
