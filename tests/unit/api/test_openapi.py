"""The OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sokovan.api.operations import ALWAYS
from tests.unit.api.api_harness import ApiHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def document(api: ApiHarness) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get("/openapi.json")).json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.slow
async def test_everything_that_is_referred_to_is_there(api: ApiHarness) -> None:
    made = await document(api)
    names = {reference.rpartition("/")[2] for reference in references(made)}
    assert names <= set(made["components"]["schemas"])
    assert {"ProblemView", "SessionBody", "SessionView", "KeyRequest"} <= names


@pytest.mark.slow
async def test_every_operation_documents_its_errors(api: ApiHarness) -> None:
    for path, method, operation in operations(await document(api)):
        documented = set(operation["responses"])
        assert {str(status) for status in ALWAYS} <= documented, (path, method)
        for status, answer in operation["responses"].items():
            # Not ready is no failure: it is the answer.
            if int(status) >= 400 and (path, status) != ("/readyz", "503"):
                assert list(answer["content"]) == ["application/problem+json"], (path, method, status)


@pytest.mark.slow
async def test_every_operation_has_a_name_of_its_own_and_a_summary(api: ApiHarness) -> None:
    rows = list(operations(await document(api)))
    names = [operation["operationId"] for _, _, operation in rows]
    assert len(set(names)) == len(names)
    assert all(operation["summary"] for _, _, operation in rows)


async def test_everything_needs_a_key_but_liveness(api: ApiHarness) -> None:
    made = await document(api)
    assert made["security"] == [{"bearer": []}]
    assert [path for path, _, operation in operations(made) if operation.get("security") == []] == ["/livez"]


async def test_bodies_are_strict(api: ApiHarness) -> None:
    schemas = (await document(api))["components"]["schemas"]
    assert all(
        schema["additionalProperties"] is False
        for name, schema in schemas.items()
        if name.endswith(("Body", "Request", "Change"))
    )


async def test_the_sockets_are_documented_too(api: ApiHarness) -> None:
    assert list((await document(api))["x-websockets"]) == [
        "/api/v1/sessions/{ref}/kernels/{index}/exec",
        "/api/v1/sessions/{ref}/kernels/{index}/ports/{port}",
    ]
