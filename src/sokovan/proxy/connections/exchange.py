"""One request from its head to the end of its response.

The steps are callbacks, not a task: a request whose endpoint has an idle connection is
passed on within one turn of the event loop.
"""

from __future__ import annotations

from typing import Any

from sokovan.proxy.accounts.key_verdicts import UnknownKey
from sokovan.proxy.accounts.token_counts import TokenCount, estimate
from sokovan.proxy.accounts.token_leases import LEASE_WANTED
from sokovan.proxy.connections.attempt import Attempt, ClientSide, Progress
from sokovan.proxy.connections.upstream_pools import UpstreamPools
from sokovan.proxy.context import HELD_BYTES_MAX, ProxyContext
from sokovan.proxy.gateway import Inference, OwnAnswer, destination, route_of
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.proxy.http.head_writer import CHUNKED_END, chunk, own_response
from sokovan.proxy.http.heads import RequestHead
from sokovan.proxy.inference_call import read_call
from sokovan.proxy.request_message import RequestMessage
from sokovan.proxy.response_relay import ResponseRelay
from sokovan.proxy.routing.choice import Affinity, choose
from sokovan.proxy.routing.ejection import CONNECT_TIMEOUT
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.proxy.routing.retries import BODY_KEPT_MAX, may_retry
from sokovan.proxy.routing.route_state import RouteState
from sokovan.wire.serving.route_table import KeyEntry, RouteLimits

_LIMITS = RouteLimits()
_NOTHING_USED = TokenCount(0, 0)
# How long a request waits for a lease of its key's budget while the manager is away. One
# that is only slow is waited for as long as a replica.
LEASE_WAIT_MS = 5_000
# Any informational response may come before the response, and none needs to be read.
INFORMED = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange:
    """One request.

    Its body is kept until it may be sent, and up to BODY_KEPT_MAX for another try; a larger
    one of a route by name is streamed. `deadline_ms` is that of its last wait for an endpoint.
    """

    __slots__ = (
        "_asks_key", "_client", "_context", "_inference", "_last", "_left", "_pools", "_refusal", "_relay",
        "_reserved", "_reuses", "_tried", "_tries", "attempt", "begun_ms", "deadline_ms", "ended", "key",
        "key_id", "message", "queued", "route",
    )  # fmt: skip

    def __init__(self, context: ProxyContext, pools: UpstreamPools, client: ClientSide, head: RequestHead) -> None:
        self._context, self._pools, self._client = context, pools, client
        self.message = RequestMessage(head)
        self.begun_ms = context.now_ms()
        self.deadline_ms = 0
        self.queued = self.ended = self._asks_key = self._left = False
        self.route: RouteState[Exchange] | None = None
        self.attempt: Attempt | None = None
        self.key: KeyEntry | None = None
        self.key_id = ""
        self._inference: Inference | None = None
        self._refusal: ProxyRefusal | OwnAnswer | None = None
        self._tries = 0
        self._reuses = True
        self._tried: list[EndpointState] = []
        self._last: EndpointState | None = None
        self._relay: ResponseRelay | None = None
        self._reserved: int | None = None

    # The request

    def begin(self) -> None:
        """Decide by the head where the request goes; its body follows."""
        self._context.exchanges.add(self)
        self._context.retries.earn()
        self._decide()

    def _decide(self) -> None:
        message = self.message
        head = message.head
        found = destination(self._context, head, local=self._client.local)
        if isinstance(found, Inference):  # first, since most are
            self._inference, self.key, message.inference = found, found.key, True
        elif isinstance(found, UnknownKey):
            self._asks_key = True
            self._client.readable(wanted=False)
            self._context.ask_key(found.secret, self.recheck)
            return
        elif isinstance(found, ProxyRefusal | OwnAnswer):
            self._refusal = found
        else:
            self.key, message.target = found.key, found.target
            self._refusal = self._admit(found.route, 0)
        length = head.length or 0
        if length > self._limits().body_bytes_max:
            self._refuse(self._too_large())
        elif self._refusal is not None and (head.chunked or length > BODY_KEPT_MAX):
            # The body is not worth reading, so the connection cannot go on.
            self._answer(self._refusal)
        elif head.expects_continue:
            self._client.write(INFORMED)

    def body_part(self, data: bytes) -> None:
        """Take over a part of the request's body."""
        if self._refusal is not None or self.ended:
            return
        connection, message = self.attempt.connection if self.attempt else None, self.message
        if connection is not None:
            connection.transport.write(chunk(data) if message.head.chunked else data)
            return
        message.add(data)
        self._context.held_bytes += len(data)
        if message.size > self._limits().body_bytes_max:
            self._refuse(self._too_large())
        elif self._context.held_bytes > HELD_BYTES_MAX:
            self._refuse(ProxyRefusal(503, "bodies-too-large", "the proxy holds too many bodies", retry_after_s=1))
        elif self._asks_key:
            return
        elif self._inference is None and message.size > BODY_KEPT_MAX and not message.streams_up:
            message.streams_up = True
            self._client.readable(wanted=False)
            self._dispatch()

    def body_end(self) -> None:
        """Take note that the request is whole, and send it."""
        message = self.message
        message.ended = True
        if self.ended or self._asks_key:
            return
        if message.streams_up:
            attempt = self.attempt
            if attempt is not None and attempt.connection is not None:
                attempt.heard_ms = self._context.now_ms()
                if message.head.chunked:
                    attempt.connection.transport.write(CHUNKED_END)
            return
        if self._refusal is None and self._inference is not None:
            self._refusal = self._resolve(self._inference)
        self._proceed()

    def _proceed(self) -> None:
        """Send the request, answer it, or let it wait for a lease of its key's budget."""
        if self._refusal is None:
            self._dispatch()
        elif self._refusal is LEASE_WANTED:
            context = self._context
            self.deadline_ms = self.deadline_ms or context.now_ms() + self._limits().queue_wait_ms
            context.unleased.add(self)
            context.demanded.set()
        else:
            self._answer(self._refusal)

    def _limits(self) -> RouteLimits:
        return self.route.entry.limits if self.route else _LIMITS

    def _too_large(self) -> ProxyRefusal:
        return ProxyRefusal(413, "body-too-large", f"the limit of a body is {self._limits().body_bytes_max} bytes")

    def _resolve(self, inference: Inference) -> ProxyRefusal | None:
        """Find the route of an inference call by its model."""
        call = read_call(inference.path, self.message.body())
        if isinstance(call, ProxyRefusal):
            return call
        route = route_of(self._context, self.key, call.model)
        if isinstance(route, ProxyRefusal):
            return route
        if self.message.size > route.entry.limits.body_bytes_max:
            return self._too_large()
        self.message.call = call
        return self._admit(route, call.tokens_max)

    def _admit(self, route: RouteState[Any], tokens: int) -> ProxyRefusal | None:
        """Count the request for its route and key."""
        self.route = route
        route.arrived += 1
        return self._reserve(tokens)

    def _reserve(self, tokens: int) -> ProxyRefusal | None:
        """Admit the request by the limits of its key."""
        if self.key is None:
            return None
        self.key_id = self.key.key_id
        refusal = self._context.accounts.admit(self.key, self.begun_ms, tokens=tokens)
        if refusal is None:
            self._reserved = tokens
        return refusal

    # The way to an endpoint

    def _dispatch(self) -> None:
        route = self.route
        if route is not None and (route.queue.length or not self._try_endpoint(route)):
            self._wait(route)

    def leave_queue(self) -> bool:
        """Send a waiting request if an endpoint is free for it."""
        route = self.route
        if route is None or not self.queued:
            return False
        if not self._try_endpoint(route):
            return False
        self._leave(route)
        return True

    def _try_endpoint(self, route: RouteState[Any]) -> bool:
        """Send to an endpoint if one is free."""
        if route.entry.holding or route.removed:
            return False
        context, call = self._context, self.message.call
        now_ms = context.now_ms()
        affinity = Affinity(self.key_id, self.message.session_of(route.entry), call.chain if call else ())
        found = choose(
            route.pools,
            route.entry.policy,
            affinity,
            now_ms=now_ms,
            draws=context.draws,
            tried=self._tried,
        )
        if found is None:
            return False
        self._tried.append(found)
        self._last = found
        self._tries += 1
        self.attempt = Attempt(context, self._pools, self, self._client, now_ms=now_ms)
        # An endpoint may close an idle connection as the request comes: one that is not repeatable takes a new one.
        reuses, until_ms = self.message.repeatable and self._reuses, self._connects_until_ms()
        self.attempt.start(route, found, affinity.chain, may_reuse=reuses, until_ms=until_ms)
        return True

    def _wait(self, route: RouteState[Any], *, until_ms: int = 0) -> None:
        """Join the queue of the route, for its usual time unless it is given, or refuse the request."""
        entry, now_ms = route.entry, self._context.now_ms()
        alive = route.alive(now_ms)
        if entry.refusal is not None and not alive:
            self._refuse(ProxyRefusal(503, entry.refusal.code, entry.refusal.text, retry_after_s=30))
        elif route.removed or not (entry.holding or alive or route.warming()):
            self._refuse(ProxyRefusal(503, "no-endpoint", f"no replica of {entry.name!r} answers", retry_after_s=5))
        elif self._queue_full(route):
            text = f"{route.queue.length} requests wait for {entry.name!r} already"
            self._refuse(ProxyRefusal(503, "queue-full", text, retry_after_s=1))
        else:
            cold = entry.holding or not alive
            wait_ms = entry.limits.cold_wait_ms if cold else entry.limits.queue_wait_ms
            self.deadline_ms = until_ms or now_ms + wait_ms
            self.queued = True
            route.queue.add(self.key_id, self)
            self._context.demanded.set()

    # How a try ends

    def tries_elsewhere(self, *, full: bool = False) -> bool:
        """Try another endpoint, or wait for one, instead of passing an error on.

        Requests wait for an endpoint that is `full` as well.
        """
        attempt, route = self.attempt, self.route
        if attempt is None or route is None or not self._may_retry(was_sent=True):
            return False
        if self._try_endpoint(route):
            self._context.counters.retries += 1
            attempt.close()
            return True
        if not (full or self._others_serve(route, attempt.endpoint)) or self._queue_full(route):
            return False
        self.attempt = None
        attempt.close()
        self._wait_again(route, None if full else attempt.endpoint)
        return True

    def _others_serve(self, route: RouteState[Any], failed: EndpointState) -> bool:
        """Whether another endpoint is busy now, or about to serve."""
        return route.others_alive(failed, self._context.now_ms()) or route.warming()

    def _queue_full(self, route: RouteState[Any]) -> bool:
        return route.queue.length >= route.entry.limits.queued_max

    def _wait_again(self, route: RouteState[Any], failed: EndpointState | None, *, until_ms: int = 0) -> None:
        """Join the queue after a try; any endpoint that is free then may be next."""
        if failed is not None:
            failed.rest(self._context.now_ms())
        self._tried.clear()
        self._wait(route, until_ms=until_ms)

    def attempt_failed(self, cause: str, *, was_sent: bool, reused: bool = False) -> None:
        """Try another endpoint, or answer the client."""
        attempt, route = self.attempt, self.route
        if attempt is None or route is None:
            return
        self.attempt = None
        attempt.close()
        self._relay = attempt.relay
        if attempt.relay is not None:
            attempt.send_head()
            self._break_off(attempt.relay)
            return
        if reused:
            # The connection was idle when it was closed: that says nothing about the endpoint.
            self._tried.remove(attempt.endpoint)
            # Others that are idle may have been closed too: the next try connects anew.
            self._reuses = False
        now_ms = self._context.now_ms()
        until_ms = self._connects_until_ms() if cause == CONNECT_TIMEOUT else 0
        if now_ms < until_ms:
            # It cost no replica any work, and says little where processor time is short: others are tried as often.
            self._tries -= 1
        if self._may_retry(was_sent=was_sent):
            if self._try_endpoint(route):
                self._context.counters.retries += 1
                return
            others = self._others_serve(route, attempt.endpoint)
            if others if not until_ms else now_ms < until_ms and (others or route.alive(now_ms)):
                self._wait_again(route, attempt.endpoint if others else None, until_ms=until_ms)
                return
        late = cause in {"first-byte-timeout", CONNECT_TIMEOUT}
        text = f"a replica of {route.entry.name!r} failed: {cause}"
        self._refuse(ProxyRefusal(504 if late else 502, cause, text, retry_after_s=1))

    def _connects_until_ms(self) -> int:
        """Until when connections may open: as long as it may wait in the queue."""
        return self.deadline_ms or self.begun_ms + self._limits().queue_wait_ms

    def _may_retry(self, *, was_sent: bool) -> bool:
        message = self.message
        allowed = may_retry(
            tries=self._tries, sent=was_sent, repeatable=message.repeatable, kept=not message.streams_up
        )
        # A connection that was refused cost no replica any work: it is not counted against the budget.
        return allowed and (not was_sent or self._context.retries.spend())

    def answered(self, *, keep_alive: bool) -> None:
        """End the request: its response is whole."""
        self._end(keep_alive=keep_alive)

    def _break_off(self, relay: ResponseRelay) -> None:
        """End a response that has begun: an error event for a stream, else an abort."""
        last = relay.broken_off(ProxyRefusal(502, "replica-failed", "the replica failed while it answered").event())
        if last is None:
            self._client.abort()
        else:
            self._client.write(last)
        # A client sends its next request on a connection that was to be kept: it is not closed under it.
        self._end(keep_alive=last is not None and relay.keep_alive and self.message.ended)

    # The client

    def from_client(self, data: bytes) -> bool:
        """Pass on bytes after an upgrade; false if there was none."""
        attempt = self.attempt
        if attempt is None or attempt.progress is not Progress.SPLICED or attempt.connection is None:
            return False
        attempt.connection.transport.write(data)
        return True

    def client_writable(self, *, writable: bool) -> None:
        """Read from the endpoint only while the client takes what comes."""
        if self.attempt is not None:
            self.attempt.client_writable(writable=writable)

    def client_gone(self) -> None:
        """Free place and endpoint at once."""
        if not self.ended:
            self._left = True
            self._context.counters.clients_gone += 1
            self._end(keep_alive=False)

    def overdue(self, now_ms: int) -> None:
        """End a wait, or a try, whose time is over."""
        if self.attempt is not None:
            self.attempt.overdue(now_ms)
        elif self.queued and now_ms >= self.deadline_ms:
            self._refuse(ProxyRefusal(503, "queue-timeout", "no replica was free in time", retry_after_s=5))
        elif self in self._context.unleased and self._lease_overdue(now_ms):
            self._refuse(LEASE_WANTED)

    def _lease_overdue(self, now_ms: int) -> bool:
        waits_since_ms = self.deadline_ms - self._limits().queue_wait_ms
        given_up = self._context.manager_away and now_ms - waits_since_ms >= LEASE_WAIT_MS
        return given_up or now_ms >= self.deadline_ms

    def recheck(self) -> None:
        """Go on with a waiting request if something has changed for it."""
        route, call = self.route, self.message.call
        if self._asks_key:
            self._key_known()
        elif self in self._context.unleased and call is not None:
            self._context.unleased.discard(self)
            self._refusal = self._reserve(call.tokens_max)
            self._proceed()
        elif self.queued and route is not None:
            alive = route.alive(self._context.now_ms())
            if route.removed or (not alive and (route.entry.refusal or not (route.entry.holding or route.warming()))):
                self._leave(route)
                self._wait(route)

    def _key_known(self) -> None:
        """Go on with the head, and with what came of the body meanwhile."""
        self._asks_key = False
        if self.ended:
            return
        self._client.readable(wanted=True)
        self._decide()
        if self.message.ended and not self.ended:
            self.body_end()

    def _leave(self, route: RouteState[Any]) -> None:
        route.queue.remove(self.key_id, self)
        self.queued = False

    def _refuse(self, refusal: ProxyRefusal) -> None:
        self._answer(refusal)

    def _answer(self, answer: ProxyRefusal | OwnAnswer) -> None:
        """Send the proxy's own answer."""
        self._refusal = answer
        head = self.message.head
        keep_alive = head.keep_alive and (self.message.ended or head.length == 0) and not self._context.draining
        silent = head.method == b"HEAD"
        self._context.counters.answered(answer.status)
        if isinstance(answer, ProxyRefusal):
            if self.route is not None:
                self.route.refused += 1
            whole = answer.response(keep_alive=keep_alive, without_body=silent)
        else:
            whole = own_response(answer.status, answer.body, keep_alive=keep_alive, content_type=answer.content_type)
            whole = whole[: len(whole) - len(answer.body)] if silent else whole
        self._client.write(whole)
        self._end(keep_alive=keep_alive)

    def _end(self, *, keep_alive: bool) -> None:
        if self.ended:
            return
        self.ended = True
        route, attempt = self.route, self.attempt
        if self.queued and route is not None:
            self._leave(route)
        counted_later = False
        if attempt is not None:
            self._relay = attempt.relay
            counted_later = self._left and attempt.relay is not None and self.message.call is not None
            attempt.close(counted=self._settle if counted_later else None)
        self._context.exchanges.discard(self)
        self._context.unleased.discard(self)
        self._context.held_bytes -= self.message.size
        if not counted_later:
            self._settle()
        # Each refers to the other: without this, both wait for the garbage collector.
        self.attempt = None
        self._client.ended(keep_alive=keep_alive)
        if route is not None:
            serve_waiting(route)

    @property
    def _was_sent(self) -> bool:
        """Whether an endpoint has the request now."""
        return self.attempt is not None and self.attempt.progress is not Progress.CONNECTING

    def _settle(self) -> None:
        """Record the usage, whichever way the request ended."""
        context, route, used = self._context, self.route, 0
        if self.message.call is not None and route is not None and self._last is not None:
            relay, count = self._relay, _NOTHING_USED
            answered = relay is not None and relay.head.status < 300
            # An engine that was asked has read the prompt, though no client waited for the answer.
            unheard = self._left and relay is None and self._was_sent
            if relay is not None and answered:
                count = relay.count(self.message.size)
            elif unheard:
                count = estimate(sent_bytes=self.message.size)
            used = count.total
            context.ledger.add(
                key_id=self.key_id,
                deployment_id=route.entry.deployment_id,
                revision=self._last.entry.revision,
                count=count,
                failed=not answered and not unheard,
                now_ms=context.wall_ms(),
            )
            context.counters.used(count)
        if self.key is not None and self._reserved is not None:
            context.accounts.settle(self.key, context.now_ms(), reserved=self._reserved, used=used)
            self._reserved = None


def serve_waiting(route: RouteState[Exchange]) -> None:
    """Send waiting requests to endpoints while some are free."""
    waiting = route.queue.first()
    while waiting is not None and waiting.leave_queue():
        waiting = route.queue.first()
