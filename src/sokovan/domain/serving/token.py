"""Endpoint tokens: keys for the gateway that may use one deployment."""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.domain.checks import LABEL_TEXT_MAX, require_int, require_kind, require_tuple
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import DeploymentId, EndpointTokenId, checked_name

TOKEN_PREFIX = "ske_"  # noqa: S105  # not a secret
MODELS_MAX = 16
LIMIT_MAX = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimits:
    """The limits of a token; None is no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    tokens_per_month: int | None = None

    def __post_init__(self) -> None:
        for name in ("requests_per_minute", "tokens_per_minute", "concurrency", "tokens_per_month"):
            value = getattr(self, name)
            if value is not None:
                require_int(value, what="token limits", field=name, least=1, most=LIMIT_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTokenSpec:
    """A token of a deployment, without its secret; no models means all it serves."""

    token_id: EndpointTokenId
    deployment_id: DeploymentId
    name: str = ""
    models: tuple[str, ...] = ()
    expires_ms: int | None = None
    limits: TokenLimits = field(default_factory=TokenLimits)

    def __post_init__(self) -> None:
        checked_name(self.token_id, what="token")
        checked_name(self.deployment_id, what="deployment")
        what = f"token {self.token_id}"
        if not isinstance(self.name, str) or len(self.name) > LABEL_TEXT_MAX or not self.name.isprintable():
            raise InvalidSpec(what=what, field="name", value=self.name, problem="must be a short printable text")
        require_tuple(self.models, str, what=what, field="models")
        if len(self.models) > MODELS_MAX:
            raise InvalidSpec(what=what, field="models", value=len(self.models), problem=f"are more than {MODELS_MAX}")
        for model in self.models:
            checked_name(model, what="model")
        if self.expires_ms is not None:
            require_int(self.expires_ms, what=what, field="expires_ms", least=0)
        require_kind(self.limits, TokenLimits, what=what, field="limits")
