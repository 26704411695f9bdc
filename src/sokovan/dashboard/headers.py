"""Response headers of the dashboard: only its own files are loaded."""

from __future__ import annotations

from collections.abc import Mapping

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types sokovan"
)
# Names of files change with their content.
IMMUTABLE = "public, max-age=31536000, immutable"
_FEATURES = (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone", "midi",
    "payment", "usb",
)  # fmt: skip
_ALWAYS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{feature}=()" for feature in _FEATURES),
}
_TLS = {"Strict-Transport-Security": "max-age=31536000"}


def page_headers(*, immutable: bool = False, tls: bool = False) -> Mapping[str, str]:
    """The headers of a file of the dashboard."""
    return {
        **_ALWAYS,
        **(_TLS if tls else {}),
        "Cache-Control": IMMUTABLE if immutable else "no-cache",
    }
