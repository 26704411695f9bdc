"""Every operation of the API."""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, get_args

import pytest

from sokovan.api.app import make_app
from sokovan.api.routes.table import every_operation
from sokovan.sdk.core import catalog_calls, deployment_calls, session_calls, system_calls, upload_calls
from sokovan.sdk.core.calls import Call, Nothing
from sokovan.sdk.core.catalog_calls import BOOKINGS, DOMAINS, GROUPS, IMAGES, POLICIES, QUEUES, SCALING_GROUPS, USERS
from sokovan.sdk.core.session_calls import SessionListOptions
from sokovan.wire.api.deployments import ChatBody
from sokovan.wire.api.fleet import WhatIfBody
from sokovan.wire.api.sessions import SessionBody
from sokovan.wire.api.tenancy import JoinTokenBody
from sokovan.wire.api.topology import TopologyBody
from tests.unit.api.api_harness import ApiHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What people and programs rely on: a line that goes away is a break of the API.
PROMISED = """
GET /livez
GET /readyz
GET /metrics
GET /api/v1/openapi.json
GET /api/v1/whoami
GET /api/v1/health
POST /api/v1/sessions
POST /api/v1/sessions:batch
POST /api/v1/sessions:stop
GET /api/v1/sessions
POST /api/v1/sessions/plan
GET /api/v1/sessions/waiting
GET /api/v1/sessions/rows
GET /api/v1/sessions/counts
GET /api/v1/sessions/{ref}
DELETE /api/v1/sessions/{ref}
POST /api/v1/sessions/{ref}/cancel
GET /api/v1/sessions/{ref}/why
GET /api/v1/sessions/{ref}/history
GET /api/v1/sessions/{ref}/spec
GET /api/v1/sessions/{ref}/kernels
GET /api/v1/sessions/{ref}/metrics
GET /api/v1/sessions/{ref}/events
GET /api/v1/sessions/{ref}/kernels/{index}/log
GET /api/v1/sessions/{ref}/kernels/{index}/files
POST /api/v1/sessions/{ref}/kernels/{index}/files
GET /api/v1/sessions/{ref}/kernels/{index}/files/content
GET /api/v1/sessions/{ref}/log
POST /api/v1/sessions/{ref}/release
POST /api/v1/deployments
POST /api/v1/deployments/plan
POST /api/v1/deployments/apply
GET /api/v1/deployments
GET /api/v1/bookings/{name}/evictions
GET /api/v1/gateways
GET /api/v1/deployments/{ref}
DELETE /api/v1/deployments/{ref}
POST /api/v1/deployments/{ref}/scale
POST /api/v1/deployments/{ref}/chat
POST /api/v1/deployments/{ref}/update
POST /api/v1/deployments/{ref}/promote
POST /api/v1/deployments/{ref}/rollback
GET /api/v1/deployments/{ref}/revisions
GET /api/v1/deployments/{ref}/why
GET /api/v1/deployments/{ref}/events
GET /api/v1/deployments/{ref}/route
POST /api/v1/deployments/{ref}/route
GET /api/v1/routes
POST /api/v1/deployments/{ref}/tokens
GET /api/v1/deployments/{ref}/tokens
DELETE /api/v1/deployments/{ref}/tokens/{token}
GET /api/v1/arrays
GET /api/v1/arrays/{ref}
DELETE /api/v1/arrays/{ref}
POST /api/v1/arrays/{ref}/release
GET /api/v1/events
GET /api/v1/usage
GET /api/v1/usage/history
GET /api/v1/queue-shares
POST /api/v1/what-if
GET /api/v1/settings
GET /api/v1/audit-log
GET /api/v1/audit-log/chain
GET /api/v1/limits
GET /api/v1/timeline
PUT /api/v1/uploads/blobs/{digest}
PUT /api/v1/uploads/{digest}
GET /api/v1/agents
GET /api/v1/agents/{name:path}
PATCH /api/v1/agents/{name:path}
GET /api/v1/agents/{name:path}/history
PATCH /api/v1/agents/{name:path}/labels
PATCH /api/v1/agents/{name:path}/taints
DELETE /api/v1/agents/{name:path}/certificate
POST /api/v1/join-tokens
GET /api/v1/join-tokens
DELETE /api/v1/join-tokens/{name:path}
POST /api/v1/agents/{name:path}/approval
GET /api/v1/topology
GET /api/v1/fleet
GET /api/v1/fleet/events
PUT /api/v1/topology
DELETE /api/v1/topology
POST /api/v1/keys
GET /api/v1/keys
PUT /api/v1/keys/{access_key:path}
DELETE /api/v1/keys/{access_key:path}
POST /api/v1/login-codes
POST /api/v1/logins
GET /api/v1/logins
DELETE /api/v1/logins/{name}
"""
CALLS: list[Call[Any]] = [
    system_calls.whoami(),
    system_calls.health(),
    system_calls.events(),
    system_calls.audit_log(),
    system_calls.audit_chain(),
    session_calls.submit(SessionBody(), key="k"),
    session_calls.plan(SessionBody()),
    session_calls.listing(SessionListOptions()),
    session_calls.rows(SessionListOptions()),
    session_calls.counts(SessionListOptions()),
    session_calls.get("ddp"),
    session_calls.stop("ddp"),
    session_calls.cancel("ddp"),
    session_calls.why("ddp"),
    session_calls.waiting(),
    session_calls.history("ddp"),
    session_calls.spec("ddp"),
    session_calls.kernels("ddp"),
    session_calls.log("ddp", 0),
    session_calls.watch("ddp"),
    session_calls.follow_log("ddp"),
    catalog_calls.agents(),
    catalog_calls.agent("gpu2"),
    catalog_calls.change_agent("gpu2", "drain", ""),
    catalog_calls.agent_impact("gpu2", "drain"),
    catalog_calls.agent_history("gpu2"),
    catalog_calls.timeline(),
    catalog_calls.limits(),
    catalog_calls.label_agent("gpu2", {}, []),
    catalog_calls.taint_agent("gpu2", [], []),
    catalog_calls.topology(),
    catalog_calls.fleet(),
    catalog_calls.fleet_changes(),
    catalog_calls.put_topology(TopologyBody(tiers=[]), dry_run=True),
    catalog_calls.delete_topology(dry_run=True),
    catalog_calls.new_key("ada", None),
    catalog_calls.keys(),
    catalog_calls.usage(scaling_group=None),
    catalog_calls.usage_history("queue", {}),
    catalog_calls.what_if(WhatIfBody()),
    catalog_calls.queue_shares(scaling_group=None, queue=None),
    deployment_calls.chat("d", ChatBody(messages=[])),
    upload_calls.put_blob("0" * 64, b"", size=0, offset=0),
    upload_calls.complete("0" * 64),
    catalog_calls.delete_key("AK-1"),
    catalog_calls.new_join_token(JoinTokenBody()),
    catalog_calls.join_tokens(),
    catalog_calls.revoke_join_token("join-1"),
    catalog_calls.approve_agent("gpu2", ["slot cpu=4"]),
    catalog_calls.revoke_agent("gpu2"),
    catalog_calls.new_login_code(),
    catalog_calls.logins(),
    catalog_calls.delete_login("LI-1"),
    catalog_calls.booking_evictions("demo"),
    *(kind.listing() for kind in (SCALING_GROUPS, QUEUES, BOOKINGS, IMAGES, DOMAINS, GROUPS, USERS, POLICIES)),
    *(kind.get("a/b:1") for kind in (SCALING_GROUPS, QUEUES, BOOKINGS, IMAGES, DOMAINS, GROUPS, USERS, POLICIES)),
    *(kind.delete("a/b:1") for kind in (SCALING_GROUPS, QUEUES, BOOKINGS, IMAGES, DOMAINS, GROUPS, USERS, POLICIES)),
]
CATALOG = ("scaling-groups", "queues", "bookings", "images", "domains", "groups", "users", "policies")


@pytest.mark.slow
async def test_every_promised_operation_is_there_and_no_other(api: ApiHarness) -> None:
    promised = set(PROMISED.split("\n")[1:-1])
    for kind in CATALOG:
        one = f"/api/v1/{kind}/{{name:path}}"
        promised |= {f"GET /api/v1/{kind}", f"GET {one}", f"PUT {one}", f"DELETE {one}"}
    found = [f"{one.method} {one.path}" for one in every_operation(api.app.state.context, dict)]
    assert set(found) == promised
    assert len(found) == len(set(found))


async def test_dry_runs_take_turns_with_the_reads_of_their_user(api: ApiHarness) -> None:
    posts = {
        one.path for one in every_operation(api.app.state.context, dict) if one.method == "POST" and one.takes_turns
    }
    assert posts == {"/api/v1/sessions/plan", "/api/v1/what-if", "/api/v1/deployments/plan"}


@pytest.mark.slow
async def test_a_manager_without_the_api_has_its_health_and_its_metrics(api: ApiHarness) -> None:
    context = api.app.state.context
    app = make_app(context.dependencies, context.settings, probes_only=True)
    assert {getattr(route, "path", "") for route in app.router.routes} == {"/livez", "/readyz", "/metrics"}


@pytest.mark.slow
async def test_an_exact_path_is_tried_before_one_that_takes_any_name(api: ApiHarness) -> None:
    paths = [one.path for one in every_operation(api.app.state.context, dict)]
    for exact, general in (
        ("/api/v1/sessions/plan", "/api/v1/sessions/{ref}"),
        ("/api/v1/sessions/waiting", "/api/v1/sessions/{ref}"),
        ("/api/v1/sessions/rows", "/api/v1/sessions/{ref}"),
        ("/api/v1/sessions/counts", "/api/v1/sessions/{ref}"),
        ("/api/v1/agents/{name:path}/history", "/api/v1/agents/{name:path}"),
        ("/api/v1/agents/{name:path}/labels", "/api/v1/agents/{name:path}"),
        ("/api/v1/agents/{name:path}/taints", "/api/v1/agents/{name:path}"),
        ("/api/v1/agents/{name:path}/certificate", "/api/v1/agents/{name:path}"),
    ):
        assert paths.index(exact) < paths.index(general)


def pattern_of(path: str) -> re.Pattern[str]:
    """What a path of the table matches."""
    return re.compile(re.sub(r"\{\w+(:path)?\}", lambda found: ".+" if found[1] else "[^/]+", path))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
async def test_the_client_reads_every_answer_as_what_the_server_gives(api: ApiHarness, call: Call[Any]) -> None:
    operations = every_operation(api.app.state.context, dict)
    met = [one for one in operations if one.method == call.method and pattern_of(one.path).fullmatch(call.path)]
    # An operation that tries out a change answers otherwise: the client says which answer it expects.
    answers = get_args(met[0].answer) if isinstance(met[0].answer, UnionType) else (met[0].answer,)
    assert (None if call.answer is Nothing else call.answer) in answers
