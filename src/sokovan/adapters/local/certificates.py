"""The local certificate authority of managers and agents, with ECDSA keys.

Its folder has the authority's key and certificate, and those that the manager uses now.
Agents create their own keys, which never leave their machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.domain.errors import InvalidInput, SokovanError
from sokovan.ports.environment import Clock

AUTHORITY_FILE, AUTHORITY_KEY_FILE = "authority.pem", "authority.key"
MANAGER_FILE = "manager.pem"
VALID_S = 24 * 3600
AUTHORITY_VALID_S = 20 * 365 * 24 * 3600
# Clocks of other machines may be behind by this much.
SKEW_S = 300
FINGERPRINT_PREFIX = "sha256:"
PRIVATE_FOLDER = 0o700
OTHERS = 0o077
# The authority's key signs certificates and nothing else.
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


class AuthorityUnusable(SokovanError):
    """The certificate authority of the data folder cannot be read."""

    code = "authority-unusable"
    hint = "restore the folder from a backup; its files belong to the server's account, with mode 600"


class InvalidCertificateRequest(InvalidInput):
    """A certificate signing request is malformed, or names another agent."""

    code = "invalid-certificate-request"
    hint = "join the machine again with the same release as the manager"


def fingerprint(certificate_pem: str) -> str:
    """The SHA-256 digest of a certificate. Raises InvalidInput."""
    try:
        der = ssl.PEM_cert_to_DER_cert(certificate_pem)
    except ValueError as error:
        raise InvalidInput("this is not a certificate", hint="check the address of the manager") from error
    return FINGERPRINT_PREFIX + hashlib.sha256(der).hexdigest()


def new_key() -> bytes:
    """A new private key, as PEM."""
    return _pem_of(ec.generate_private_key(ec.SECP256R1()))


def signing_request(key_pem: bytes, agent_id: str) -> str:
    """The request for a certificate of `agent_id` for this key."""
    key = serialization.load_pem_private_key(key_pem, password=None)
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(agent_id))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()  # type: ignore[arg-type]  # new_key made it


class CertificateAuthority:
    """Issues certificates; all expire within a day, and are renewed before that.

    `own` is the folder for the certificate of this manager, if the authority's folder is
    shared.
    """

    def __init__(self, folder: Path, clock: Clock, *, own: Path | None = None) -> None:
        self._folder, self._clock, self._own = folder, clock, own or folder
        self._key, self._certificate = self._load()

    @property
    def certificate(self) -> str:
        """The authority's certificate, as PEM."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, request_pem: str, agent_id: str) -> tuple[str, str]:
        """A certificate for an agent, and the digest of its public key.

        Raises InvalidCertificateRequest.
        """
        request = _request_of(request_pem)
        if request.subject != _subject(agent_id):
            raise InvalidCertificateRequest(f"the certificate request does not name agent {agent_id}")
        builder = self._builder(_subject(agent_id), VALID_S).public_key(request.public_key())
        # Its data listener has the same certificate; without names in it, it can pose as no manager.
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        issued = self._signed(builder.add_extension(usage, critical=False))
        return issued.public_bytes(Encoding.PEM).decode(), _key_digest(request)

    def listening(self, name: str, refused: Callable[[str], None] = lambda _reason: None) -> ssl.SSLContext:
        """A TLS context for a listener, whose clients may present a certificate.

        `refused` is called with the reason for each certificate that is not valid.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = _reporting(refused)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.certificate)
        self.renew(context, name)
        return context

    def serving(self, names: Sequence[str], file: str) -> ssl.SSLContext:
        """A TLS context for a listener with these names and addresses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.renew(context, *names, file=file)
        return context

    def renew(self, context: ssl.SSLContext, *names: str, file: str = MANAGER_FILE) -> None:
        """Give a listener a new certificate; open connections continue."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_subject(names[0]), VALID_S).public_key(key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_general_name, names))), critical=False)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        issued = self._signed(builder.add_extension(usage, critical=False))
        self._own.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        path = self._own / file
        write_whole(path, issued.public_bytes(Encoding.PEM) + _pem_of(key))
        context.load_cert_chain(path)

    def _load(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        key_path, path = self._folder / AUTHORITY_KEY_FILE, self._folder / AUTHORITY_FILE
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
            if not path.exists():  # written last, so that a key without a certificate was never used
                self._create(key_path, path)
            if key_path.stat().st_mode & OTHERS:
                raise AuthorityUnusable(f"{key_path} is accessible to other users", hint=f"chmod 600 {key_path}")
            key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            raise AuthorityUnusable(f"{self._folder}: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise AuthorityUnusable(f"{key_path} does not belong to {path}")
        return key, certificate

    def _create(self, key_path: Path, path: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject("Sokovan local authority")
        builder = self._builder(subject, AUTHORITY_VALID_S, issuer=subject).public_key(key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(_SIGNS, critical=True).add_extension(own, critical=False)
        certificate = builder.sign(key, hashes.SHA256())
        write_whole(key_path, _pem_of(key))
        write_whole(path, certificate.public_bytes(Encoding.PEM))

    def _signed(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        ends = x509.BasicConstraints(ca=False, path_length=None)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(ends, critical=True).add_extension(issuer, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _builder(self, subject: x509.Name, valid_s: int, issuer: x509.Name | None = None) -> x509.CertificateBuilder:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        builder = x509.CertificateBuilder().subject_name(subject).serial_number(x509.random_serial_number())
        builder = builder.issuer_name(issuer or self._certificate.subject)
        return builder.not_valid_before(now - timedelta(seconds=SKEW_S)).not_valid_after(
            now + timedelta(seconds=valid_s - SKEW_S)
        )


def _reporting(refused: Callable[[str], None]) -> type[ssl.SSLObject]:
    """The TLS connections of a listener, which report refused certificates."""

    class ReportingObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except ssl.SSLCertVerificationError as error:
                refused(error.verify_message)
                raise

    return ReportingObject


def dialling(authority_pem: str, identity: Path | None = None) -> ssl.SSLContext:
    """A TLS context for clients of a manager. Raises OSError.

    `identity` is the file with their certificate and key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority_pem)
    if identity is not None:
        context.load_cert_chain(identity)
    return context


def expires_ms(certificate_pem: bytes) -> int:
    """When a certificate expires. Raises InvalidInput."""
    with contextlib.suppress(ValueError):
        return round(x509.load_pem_x509_certificate(certificate_pem).not_valid_after_utc.timestamp() * 1000)
    raise InvalidInput("this is not a certificate", hint="join the machine again with a new token")


def _request_of(pem: str) -> x509.CertificateSigningRequest:
    """A valid request of a supported key. Raises InvalidCertificateRequest."""
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        key = request.public_key()
        if not request.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidCertificateRequest("the certificate request has no valid ECDSA signature")
    except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise InvalidCertificateRequest("the certificate request is malformed") from error
    return request


def _key_digest(request: x509.CertificateSigningRequest) -> str:
    public = request.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest()


def _general_name(name: str) -> x509.GeneralName:
    """The name or address of a server, as it is in a certificate."""
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ip_address(name.removeprefix("[").removesuffix("]")))
    return x509.DNSName(name)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)])


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
