"""A front proxy as a configuration of HAProxy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sokovan.adapters.local.certificates import CertificateAuthority
from sokovan.adapters.local.clock import SystemClock
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.front_proxies.front_proxy import front_proxy
from sokovan.sdk.front_proxies.haproxy import haproxy
from tests.unit.sdk.front_proxies.exports import export_of

HAPROXY = shutil.which("haproxy") or ""


def test_every_gateway_is_a_server_that_is_checked() -> None:
    lines = haproxy(front_proxy(export_of("http://10.0.0.3:7648", "http://[fd00::1]:7648"))).splitlines()
    assert lines[-2:] == ["  server gateway-1 10.0.0.3:7648", "  server gateway-2 [fd00::1]:7648"]
    assert "  bind 127.0.0.1:8080" in lines
    assert "  http-check send meth GET uri /-/ready ver HTTP/1.1 hdr host gateway" in lines


def test_events_of_streams_are_not_held_back() -> None:
    lines = haproxy(front_proxy(export_of("http://10.0.0.3:7648"))).splitlines()
    assert "  option http-no-delay" in lines[: lines.index("frontend sokovan")]


def test_the_name_of_an_encrypted_gateway_is_verified() -> None:
    text = haproxy(front_proxy(export_of("https://gw.example:7648"), certificate="m.pem", ca="ca.pem"))
    assert "bind 0.0.0.0:443 ssl crt m.pem alpn h2,http/1.1" in text
    assert "ssl verify required ca-file ca.pem sni str(gw.example) check-sni gw.example verifyhost gw.example" in text


def test_a_key_of_its_own_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="from one file"):
        haproxy(front_proxy(export_of("http://10.0.0.3:7648"), certificate="m.pem", key="k.pem"))


@pytest.mark.slow
@pytest.mark.skipif(not HAPROXY, reason="needs haproxy; see make packages")
@pytest.mark.parametrize("only_routes", [False, True])
@pytest.mark.parametrize(
    "urls",
    [
        ("http://10.0.0.3:7648", "http://[fd00::1]:7648"),
        ("https://10.0.0.3:7648", "https://[fd00::1]:7648"),
        ("https://localhost:7648",),
    ],
)
def test_haproxy_accepts_it_without_a_warning(tmp_path: Path, urls: tuple[str, ...], *, only_routes: bool) -> None:
    authority = CertificateAuthority(tmp_path, SystemClock())
    authority.serving(["127.0.0.1"], "models.pem")
    file = tmp_path / "haproxy.cfg"
    for certificate in ("", str(tmp_path / "models.pem")):
        ca = tmp_path / "ca.pem"
        ca.write_text(authority.certificate, encoding="ascii")
        front = front_proxy(export_of(*urls), certificate=certificate, ca=str(ca), only_routes=only_routes)
        file.write_text(haproxy(front), encoding="ascii")
        checked = subprocess.run([HAPROXY, "-c", "-f", str(file)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        assert "WARNING" not in checked.stderr
