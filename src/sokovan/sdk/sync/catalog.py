"""Machines, owners and limits, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from sokovan.sdk.core import catalog_calls
from sokovan.sdk.core.catalog_calls import DOMAINS, GROUPS, POLICIES, QUEUES, SCALING_GROUPS, USERS, CatalogKind
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.sync.connection import Connection
from sokovan.wire.api.fleet import AgentView, ImageBody
from sokovan.wire.api.sessions import HistoryLine
from sokovan.wire.api.tenancy import KeyView, NewKeyView

__all__ = ["DOMAINS", "GROUPS", "POLICIES", "QUEUES", "SCALING_GROUPS", "USERS"]

B = TypeVar("B")


class Catalog(Generic[B]):
    """Named objects of one kind that are read and written whole."""

    def __init__(self, connection: Connection, kind: CatalogKind[B]) -> None:
        self._connection, self._kind = connection, kind

    def list(self) -> Iterator[B]:
        """All that the caller may see, page by page as they are taken."""
        return self._connection.pages(Paging(self._kind.listing))

    def get(self, name: str) -> B:
        """One by its name."""
        return self._connection.send(self._kind.get(name))

    def put(self, body: B) -> B:
        """Create one, or replace it whole."""
        return self._connection.send(self._kind.put(body))

    def delete(self, name: str) -> None:
        """Remove one."""
        self._connection.send(self._kind.delete(name))


class ImageCatalog:
    """Images, each for one architecture."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._kind = connection, catalog_calls.IMAGES

    def list(self) -> Iterator[ImageBody]:
        """All of them."""
        return self._connection.pages(Paging(self._kind.listing))

    def get(self, name: str, *, architecture: str | None = None) -> ImageBody:
        """One by its name, and its architecture if it has several."""
        return self._connection.send(self._kind.get(name, architecture=architecture))

    def put(self, body: ImageBody) -> ImageBody:
        """Create one, or replace it whole."""
        return self._connection.send(self._kind.put(body))

    def delete(self, name: str, *, architecture: str | None = None) -> None:
        """Remove one."""
        self._connection.send(self._kind.delete(name, architecture=architecture))


class Agents:
    """Machines."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Iterator[AgentView]:
        """All of them."""
        return self._connection.pages(Paging(catalog_calls.agents))

    def get(self, name: str) -> AgentView:
        """One by its name."""
        return self._connection.send(catalog_calls.agent(name))

    def drain(self, name: str, *, reason: str = "") -> AgentView:
        """Start nothing new on a machine; what runs goes on."""
        return self._connection.send(catalog_calls.change_agent(name, "drain", reason))

    def undrain(self, name: str, *, reason: str = "") -> AgentView:
        """Take a drained machine back."""
        return self._connection.send(catalog_calls.change_agent(name, "undrain", reason))

    def declare_gone(self, name: str, *, reason: str = "") -> AgentView:
        """Say that a machine will never come back, so that what it held is free."""
        return self._connection.send(catalog_calls.change_agent(name, "declare-gone", reason))

    def history(self, name: str) -> Sequence[HistoryLine]:
        """The story of a machine."""
        return self._connection.send(catalog_calls.agent_history(name))


class Keys:
    """Keys, by which callers show who they are."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, user: str, *, policy: str | None = None) -> NewKeyView:
        """Make a key; its token is in the answer, and nowhere else ever again."""
        return self._connection.send(catalog_calls.new_key(user, policy))

    def list(self) -> Iterator[KeyView]:
        """All that the caller may see, without their secrets."""
        return self._connection.pages(Paging(catalog_calls.keys))

    def delete(self, access_key: str) -> None:
        """Make a key useless."""
        self._connection.send(catalog_calls.delete_key(access_key))
