"""Response headers of the dashboard."""

from __future__ import annotations

from sokovan.dashboard.headers import IMMUTABLE, page_headers


def test_the_policy_allows_the_dashboards_own_files_and_nothing_else() -> None:
    assert page_headers()["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "worker-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types sokovan"
    )


def test_no_other_site_may_frame_open_or_read_it() -> None:
    headers = page_headers()
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "camera=()" in headers["Permissions-Policy"]


def test_only_files_named_by_their_content_are_kept_for_long() -> None:
    assert page_headers()["Cache-Control"] == "no-cache"
    assert page_headers(immutable=True)["Cache-Control"] == IMMUTABLE


def test_tls_is_required_again_only_where_it_is_used() -> None:
    assert "Strict-Transport-Security" not in page_headers()
    assert page_headers(tls=True)["Strict-Transport-Security"].startswith("max-age=")
