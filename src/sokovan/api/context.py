"""What every route works with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sokovan.api.access.auditing import Auditor
from sokovan.api.access.authentication import Authenticator
from sokovan.api.parts import ApiParts
from sokovan.api.settings import ApiSettings
from sokovan.api.streaming.event_hub import EventHub
from sokovan.api.streaming.event_streams import Streams
from sokovan.api.uncancellable_store import SteadyStore


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The parts, and what the API makes of them once."""

    parts: ApiParts
    settings: ApiSettings
    authenticator: Authenticator
    streams: Streams
    auditor: Auditor
    store: SteadyStore

    @classmethod
    def of(cls, parts: ApiParts, settings: ApiSettings) -> ApiContext:
        """The context for these parts."""
        store = SteadyStore(parts.store)
        parts = replace(parts, store=store)
        clock, limits = parts.clock, settings.streams
        authenticator = Authenticator(store, clock, pepper=settings.pepper, kept_s=settings.principal_kept_s)
        hub = EventHub(parts.events, clock=clock, ids=parts.ids, limits=limits)
        streams = Streams(hub, authenticator, clock=clock, limits=limits)
        return cls(parts, settings, authenticator, streams, Auditor(store, clock), store)
