"""The products whose configuration a front proxy can be written as."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sokovan.sdk.front_proxies.envoy import envoy
from sokovan.sdk.front_proxies.front_proxy import FrontProxy
from sokovan.sdk.front_proxies.haproxy import haproxy
from sokovan.sdk.front_proxies.traefik import traefik

FORMATS: Mapping[str, Callable[[FrontProxy], str]] = {"haproxy": haproxy, "envoy": envoy, "traefik": traefik}
