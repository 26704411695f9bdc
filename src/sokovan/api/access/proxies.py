"""Admission of proxies: a credential of their own, which opens three paths only."""

from __future__ import annotations

import hmac

from sokovan.api.errors import Unauthenticated
from sokovan.wire.serving.key_questions import KEYS_PATH
from sokovan.wire.serving.proxy_reports import REPORTS_PATH
from sokovan.wire.serving.route_table import TABLE_PATH
from sokovan.wire.serving.serving_codec import QUESTION_BYTES_MAX, REPORT_BYTES_MAX

# Only proxies use these, with bodies of at most so many bytes.
PROXY_PATHS = {TABLE_PATH: 0, REPORTS_PATH: REPORT_BYTES_MAX, KEYS_PATH: QUESTION_BYTES_MAX}


def require_proxy(authorization: str | None, token: str) -> None:
    """Require the credential of proxies; without a token there are none.

    Raises Unauthenticated.
    """
    given = (authorization or "").encode()
    if not token or not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise Unauthenticated
