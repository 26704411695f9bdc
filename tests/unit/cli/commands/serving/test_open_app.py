"""`sokovan open`."""

from __future__ import annotations

import pytest

from tests.unit.cli.canned_server import Sokovan


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lab", "--kernel", "-1"), "--kernel -1"),
        (("lab", "--local-port", "65536"), "--local-port 65536"),
        ((), "requires"),
    ],
)
def test_an_invalid_command_is_a_usage_error(sokovan: Sokovan, words: tuple[str, ...], message: str) -> None:
    status, _, err = sokovan("open", *words)
    assert status == 2
    assert message in err
