"""The OpenAPI document, held to its word by requests that are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sokovan.wire.api.batches import BATCH_PATH, LINES_MEDIA, STOP_PATH
from tests.integration.served_api import ServedApi
from tests.unit.api.api_harness import ADMIN, ApiHarness, domain_admin, member, quick

ROLES = {"admin": ADMIN, "domain-admin": domain_admin("north"), "user": member("north")}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 4
LIMIT_S = 120
EXPLORE = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# Objects that are there, so that not every request ends with "there is no such thing".
THERE: dict[str, list[str]] = {
    "/api/v1/sessions/{ref}": ["north-run", "north-wait", "south-run"],
    "/api/v1/agents/{name}": ["a1"],
    "/api/v1/queues/{name}": ["default"],
    "/api/v1/scaling-groups/{name}": ["default"],
    "/api/v1/users/{name}": [member("north"), member("south")],
    "/api/v1/groups/{name}": ["north-group"],
    "/api/v1/domains/{name}": ["north"],
}


@schemathesis.serializer(LINES_MEDIA)
def json_lines(_context: Any, value: Any) -> bytes:
    """A body of JSON lines."""
    return b"\n".join(msgspec.json.encode(line) for line in (value if isinstance(value, list) else [value]))


@pytest.fixture(scope="module")
def served() -> Iterator[ServedApi]:
    """An API whose streams end by themselves, and soon."""
    streams = quick(lasts_s_max=0.02, idle_s=0.01)
    with ServedApi(streams=streams, failures_per_minute=10**6, requests_per_s=10**6, requests_burst=10**6) as made:

        async def create_objects(api: ApiHarness) -> None:
            await api.run("north-run", member("north"))
            await api.submit("north-wait", member("north"))
            await api.run("south-run", member("south"))
            api.agents.says("north-run.0", b"hello\nworld\n")

        made.run(create_objects)
        yield made


def operations(served: ServedApi) -> list[Any]:
    assert served.api is not None
    address = f"{served.url}/api/v1/openapi.json"
    schema = schemathesis.openapi.from_url(address, headers=served.api.headers(), timeout=LIMIT_S)
    found: list[Any] = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(found) > 40
    return found


def real_names(path: str) -> list[str]:
    return next((names for prefix, names in THERE.items() if path.startswith(prefix)), [])


def explore(served: ServedApi, operation: Any, mode: GenerationMode) -> None:
    """A few requests to one operation, made from the document, each by every role.

    Making a request takes longer than serving it.
    """
    assert served.api is not None
    headers = [served.api.headers(user) for user in ROLES.values()]
    names = real_names(operation.path)
    # A batch refuses its wrong lines, and is no wrong request itself.
    strict = mode is GenerationMode.NEGATIVE and operation.path not in {BATCH_PATH, STOP_PATH}
    checks = [*CHECKS, negative_data_rejection] if strict else CHECKS
    with requests.Session() as session:
        session.trust_env = False  # it would look through the environment for proxies at each request

        @EXPLORE
        @given(case=operation.as_strategy(generation_mode=mode), pick=st.integers(min_value=0, max_value=7))
        def check(case: Any, pick: int) -> None:
            if pick < len(names) and mode is GenerationMode.POSITIVE:
                for parameter in ("ref", "name"):
                    if parameter in (case.path_parameters or {}):
                        case.path_parameters[parameter] = names[pick]
            for theirs in headers:
                response = case.call(base_url=served.url, session=session, headers=theirs, timeout=LIMIT_S)
                case.validate_response(response, checks=checks, headers=theirs)

        # An operation that reads nothing of a request cannot be asked wrongly.
        with suppress(Unsatisfiable):
            check()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_what_the_document_says_is_what_happens(served: ServedApi, mode: GenerationMode) -> None:
    for operation in operations(served):
        try:
            explore(served, operation, mode)
        except Exception as error:
            raise AssertionError(f"{operation.method} {operation.path}: {error}") from error


def test_a_method_that_is_not_documented_is_405_with_those_that_are(served: ServedApi) -> None:
    assert served.api is not None
    documented: dict[str, set[str]] = {}
    for operation in operations(served):
        documented.setdefault(operation.path, set()).add(operation.method.upper())
    for path, methods in documented.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - methods:
            address = served.url + path.replace("{index}", "0").replace("{", "").replace("}", "")
            answer = requests.request(method, address, headers=served.api.headers(), timeout=LIMIT_S)
            if answer.status_code == 405:
                assert methods <= set(answer.headers["allow"].split(", ")), (method, path)
            else:
                # Another path that takes any name may match as well; then the name is unknown there.
                assert answer.status_code in {404, 415, 422}, (method, path, answer.text)
