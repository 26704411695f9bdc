"""The base of request bodies.

Page types are written out one by one: pydantic does not see the items of a class derived
from a generic page, and the OpenAPI document would lack them.
"""

from __future__ import annotations

from typing import Any, ClassVar

Amount = int | float | str


class StrictBody:
    """A body whose unknown keys are rejected, so that typos have no silent effect."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
