"""Chat with a deployment through the API, for pages that reach no other origin."""

from __future__ import annotations

from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.deployments import deployment_named
from sokovan.api.context import ApiContext
from sokovan.api.mapping.deployments import chat_request
from sokovan.api.operations import EVENT_STREAM, ApiOperation, body_of
from sokovan.api.routes.parameters import Ref
from sokovan.api.streaming.event_streams import Source, sse
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import EndpointTokenId
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.domain.serving.token import EndpointTokenSpec
from sokovan.wire.api.deployments import ChatBody, ChatPart

NEW = EndpointTokenId("new")
# The token of one answer: it is revoked at the end, and expires if that fails.
TOKEN_MS = 600_000


class ChatRoutes:
    """Asks the models of deployments as a client of the gateway would."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._controller, self._clock = dependencies.store, dependencies.routes, dependencies.clock
        self._models, self._streams = dependencies.models, context.streams

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="POST", path="/api/v1/deployments/{ref}/chat", endpoint=self.chat, tag="deployments",
                body=ChatBody, answer=ChatPart, media=EVENT_STREAM, fails=(404, 409),
            )
        ]  # fmt: skip

    async def chat(self, request: Request, ref: Ref) -> Response:
        """Ask a model of a deployment; the answer comes as server-sent events `part`.

        The last one has `end`; after an error the last event is a `problem`. A token is created
        for the request and revoked afterwards. For programs the gateway is better: it is
        compatible with clients of OpenAI.
        """
        principal, body = principal_of(request.scope), body_of(request, ChatBody)
        record = await self._store.read(lambda unit: deployment_named(unit, ref, principal))
        wanted = chat_request(body, record)
        if self._models is None:
            raise Conflict("this server has no gateway", hint="start one with sokovan up or sokovan proxy")
        return self._streams.response(principal, lambda _ear: self._answer(principal, record, wanted))

    async def _answer(
        self, principal: AuthenticatedPrincipal, record: DeploymentRecord, wanted: dict[str, object]
    ) -> Source:
        if self._models is None:
            return
        caller, deployment_id = principal.caller, record.deployment_id
        spec = EndpointTokenSpec(
            token_id=NEW,
            deployment_id=deployment_id,
            name="playground",
            expires_ms=self._clock.now_ms() + TOKEN_MS,
        )
        created = await self._controller.create_token(spec, caller)
        try:
            async with aclosing(self._models(created.token, wanted)) as parts:
                async for text in parts:
                    if text:
                        yield sse("part", ChatPart(text=text))
        finally:
            await self._controller.revoke_token(deployment_id, created.record.spec.token_id, caller)
        yield sse("part", ChatPart(end=True))
