"""The certificate authority: created once, private, and certificates for one agent each."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from sokovan.adapters.local.certificates import (
    VALID_S,
    AuthorityUnusable,
    CertificateAuthority,
    InvalidCertificateRequest,
    expires_ms,
    fingerprint,
    new_key,
    signing_request,
)
from sokovan.domain.errors import InvalidInput
from sokovan.testing.clock import VirtualClock


def test_an_authority_is_created_once_and_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    first = CertificateAuthority(folder, VirtualClock())
    assert CertificateAuthority(folder, VirtualClock()).certificate == first.certificate
    assert fingerprint(first.certificate).startswith("sha256:")
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    (folder / "authority.key").chmod(0o644)
    with pytest.raises(AuthorityUnusable, match="other users"):
        CertificateAuthority(folder, VirtualClock())
    (folder / "authority.key").write_bytes(b"none")
    (folder / "authority.key").chmod(0o600)
    with pytest.raises(AuthorityUnusable):
        CertificateAuthority(folder, VirtualClock())


def test_a_server_has_a_certificate_for_its_names_beside_a_shared_authority(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    CertificateAuthority(shared, VirtualClock())
    authority = CertificateAuthority(shared, VirtualClock(), own=own)
    authority.serving(("lab.example", "10.0.0.1", "[::1]"), "api.pem")
    found = x509.load_pem_x509_certificate((own / "api.pem").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["lab.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "::1"]
    assert {path.name for path in shared.iterdir()} == {"authority.key", "authority.pem"}


def test_a_certificate_is_for_the_requested_agent_and_at_most_a_day(tmp_path: Path) -> None:
    clock = VirtualClock()
    authority, key = CertificateAuthority(tmp_path / "tls", clock), new_key()
    certificate, digest = authority.issue(signing_request(key, "gpu2"), "gpu2")
    assert 0 < expires_ms(certificate.encode()) - clock.now_ms() <= VALID_S * 1000
    assert authority.issue(signing_request(key, "gpu2"), "gpu2")[1] == digest
    assert authority.issue(signing_request(new_key(), "gpu2"), "gpu2")[1] != digest
    for request in (signing_request(key, "gpu3"), "none", certificate):
        with pytest.raises(InvalidCertificateRequest):
            authority.issue(request, "gpu2")
    with pytest.raises(InvalidInput):
        expires_ms(b"none")
    with pytest.raises(InvalidInput):
        fingerprint("none")
