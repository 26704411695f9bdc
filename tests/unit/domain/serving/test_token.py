"""Endpoint tokens: what they may use."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidInput, InvalidSpec
from sokovan.domain.ids import DeploymentId, EndpointTokenId
from sokovan.domain.serving.token import EndpointTokenSpec, TokenLimits


def test_a_token_has_no_limits_by_default() -> None:
    spec = EndpointTokenSpec(token_id=EndpointTokenId("t1"), deployment_id=DeploymentId("d1"))
    assert (spec.models, spec.expires_ms, spec.limits) == ((), None, TokenLimits())


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "concurrency", "tokens_per_month"])
def test_a_limit_is_a_positive_number(name: str) -> None:
    for value in (0, -1, 10**13, True):
        with pytest.raises(InvalidSpec, match=name):
            TokenLimits(**{name: value})


@pytest.mark.parametrize(
    "fields",
    [
        {"token_id": "no id"},
        {"deployment_id": ""},
        {"name": "\n"},
        {"models": "llama"},
        {"models": ("m",) * 17},
        {"models": ("not a model",)},
        {"expires_ms": -1},
        {"limits": None},
    ],
)
def test_bad_values_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        EndpointTokenSpec(**{"token_id": "t1", "deployment_id": "d1"} | fields)
