"""Proxies have a credential of their own."""

from __future__ import annotations

import pytest

from sokovan.api.access.proxies import require_proxy
from sokovan.api.errors import Unauthenticated


def test_the_credential_of_proxies_is_admitted() -> None:
    require_proxy("Bearer secret", "secret")


@pytest.mark.parametrize(
    ("given", "token"),
    [(None, "secret"), ("", "secret"), ("Bearer other", "secret"), ("secret", "secret"), ("Bearer ", ""), (None, "")],
)
def test_others_are_refused(given: str | None, token: str) -> None:
    with pytest.raises(Unauthenticated):
        require_proxy(given, token)
