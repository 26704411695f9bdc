"""What every route works with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sokovan.api.access.auditing import Auditor
from sokovan.api.access.authentication import Authenticator
from sokovan.api.parts import ApiDependencies
from sokovan.api.settings import ApiSettings
from sokovan.api.streaming.event_hub import EventHub
from sokovan.api.streaming.event_streams import Streams
from sokovan.api.uncancellable_store import UncancellableStore


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The parts, and what the API makes of them once."""

    parts: ApiDependencies
    settings: ApiSettings
    authenticator: Authenticator
    streams: Streams
    auditor: Auditor
    store: UncancellableStore

    @classmethod
    def of(cls, parts: ApiDependencies, settings: ApiSettings) -> ApiContext:
        """The context for these parts."""
        store = UncancellableStore(parts.store)
        parts = replace(parts, store=store)
        clock, limits = parts.clock, settings.streams
        authenticator = Authenticator(store, clock, pepper=settings.pepper, kept_s=settings.principal_kept_s)
        hub = EventHub(parts.events, clock=clock, ids=parts.ids, limits=limits)
        streams = Streams(hub, authenticator, clock=clock, limits=limits)
        return cls(parts, settings, authenticator, streams, Auditor(store, clock), store)
