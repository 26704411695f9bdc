"""Calls of the managers of a cluster: of the next one if one is away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

WAIT_S = 25
# With several managers one that hangs is found sooner.
WAIT_OF_SEVERAL_S = 5
# Time to answer; of several managers, beyond what one was asked to wait.
ANSWER_S, ANSWER_OF_SEVERAL_S = WAIT_S + 15.0, 4.0
CONNECT_S = 10.0


class ManagerAway(Exception):
    """No manager answered, or not as expected."""


class ManagerCalls:
    """Calls the manager that answered last; all of them have the same tables."""

    def __init__(self, clients: Sequence[httpx2.AsyncClient], log: Callable[[str], None]) -> None:
        self._clients, self._log = clients, log
        self._current = 0
        self._several = len(clients) > 1
        self.wait_s = WAIT_OF_SEVERAL_S if self._several else WAIT_S

    async def call(self, method: str, path: str, *, wait_s: int = 0, **options: object) -> bytes:
        """The content of the answer of the first manager that has one. Raises ManagerAway."""
        problem = ManagerAway("there is no manager")
        for _ in self._clients:
            tried = self._current
            try:
                content = await self._asked(tried, method, path, wait_s=wait_s, options=options)
            except ManagerAway as refused:
                problem = refused
                # Another call may have moved on already.
                if self._current == tried and self._several:
                    self._current = (tried + 1) % len(self._clients)
                    self._log(f"the proxy goes on with another manager: {refused}")
            else:
                return content
        raise problem

    async def _asked(self, manager: int, method: str, path: str, *, wait_s: int, options: dict[str, object]) -> bytes:
        import httpx2  # noqa: PLC0415  # a proxy serves before its client has loaded

        client = self._clients[manager]
        limits = httpx2.Timeout(CONNECT_S, read=ANSWER_S)
        if self._several:
            limits = httpx2.Timeout(ANSWER_OF_SEVERAL_S, read=wait_s + ANSWER_OF_SEVERAL_S)
        try:
            response = await client.request(method, path, timeout=limits, **options)  # type: ignore[arg-type]  # options of the client, passed on
        except (httpx2.HTTPError, OSError) as problem:
            raise ManagerAway(f"{client.base_url}: {type(problem).__name__}: {problem}") from None
        if response.status_code != 200:
            raise ManagerAway(f"{client.base_url} answered {response.status_code} to {method} {path}")
        return response.content
