"""What the bodies that clients send have in common.

Pages, which go the other way, are written out one by one: of a class that derives from
a generic page pydantic does not see the items, and the OpenAPI document would not tell.
"""

from __future__ import annotations

from typing import Any, ClassVar

Amount = int | float | str


class StrictBody:
    """A body whose unknown keys are refused: a misspelt one must not change what runs."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
