"""Seals secrets with AES-256-GCM, under the keys of a private file.

The newest key seals; all keys open. A file that changes is read again, so that a new key
takes effect without a restart.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets as random_source
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.domain.errors import SokovanError
from sokovan.ports.secrets import SecretsUnreadable

KEY_BYTES = 32
NONCE_BYTES = 12
# Keys that a file holds; a new one removes the oldest.
KEYS_MAX = 16
FILE_BYTES_MAX = 1 << 16
OTHERS = 0o077
FORM = "1"


class SecretKeysUnusable(SokovanError):
    """The file with the keys for secrets cannot be read or is damaged."""

    code = "secret-keys-unusable"
    hint = "restore the file from a backup; it must belong to the server's account, with mode 600"


class SecretKey(NamedTuple):
    """One key and its public name."""

    name: str
    key: bytes

    @classmethod
    def new(cls) -> SecretKey:
        """A random key."""
        return cls(random_source.token_hex(4), random_source.token_bytes(KEY_BYTES))


class AesSecretBox:
    """Seals with the last of its keys. `keys` is called for every use."""

    def __init__(self, keys: Callable[[], Sequence[SecretKey]]) -> None:
        self._keys = keys

    def seal(self, secrets: Mapping[str, str], *, owner: str) -> str:
        """See the port."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # most servers start without it

        name, key = self._keys()[-1]
        nonce = os.urandom(NONCE_BYTES)
        content = json.dumps(dict(secrets)).encode()
        sealed = nonce + AESGCM(key).encrypt(nonce, content, _bound(name, owner))
        return f"{FORM}.{name}.{base64.b64encode(sealed).decode()}"

    def open(self, sealed: str, *, owner: str) -> Mapping[str, str]:
        """See the port."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # loaded only here
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # loaded only here

        form, _, rest = sealed.partition(".")
        name, _, text = rest.partition(".")
        key = dict(self._keys()).get(name)
        if form != FORM or key is None:
            raise SecretsUnreadable(f"no key {name[:16]!r} for the secrets of {owner}")
        try:
            content = base64.b64decode(text, validate=True)
            opened: Mapping[str, str] = json.loads(
                AESGCM(key).decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], _bound(name, owner))
            )
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise SecretsUnreadable(f"the stored secrets of {owner} were changed") from error
        return opened

    def digest(self, text: str) -> str:
        """See the port."""
        # The oldest key, which a new one does not change: a repeated request is recognized after it.
        return hmac.new(self._keys()[0].key, text.encode(), hashlib.sha256).hexdigest()


class SecretKeyFile:
    """The keys in a private file, the newest last; one line is a name and a key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, ...], tuple[SecretKey, ...]] | None = None

    def create(self) -> None:
        """Create the file with one key, if it is missing. Raises SecretKeysUnusable."""
        if not self._path.exists():
            self._write([SecretKey.new()])

    def keys(self) -> Sequence[SecretKey]:
        """The keys, at least one. Raises SecretKeysUnusable."""
        try:
            found = self._path.stat()
            mark = (found.st_ino, found.st_mtime_ns, found.st_size)
            if self._read is None or self._read[0] != mark:
                if found.st_mode & OTHERS or found.st_size > FILE_BYTES_MAX:
                    raise SecretKeysUnusable(f"{self._path} is readable by other accounts, or too large")
                self._read = (mark, self._parsed(self._path.read_text(encoding="ascii")))
        except (OSError, ValueError) as error:
            raise SecretKeysUnusable(f"{self._path}: {error}") from error
        return self._read[1]

    def rotate(self) -> str:
        """Add a key, with which secrets are sealed from now on; its name."""
        key = SecretKey.new()
        self._write([*self.keys(), key][-KEYS_MAX:])
        return key.name

    def _write(self, keys: Sequence[SecretKey]) -> None:
        text = "".join(f"{one.name} {base64.b64encode(one.key).decode()}\n" for one in keys)
        try:
            write_whole(self._path, text.encode())
        except OSError as error:
            raise SecretKeysUnusable(f"{self._path}: {error}") from error

    def _parsed(self, text: str) -> tuple[SecretKey, ...]:
        keys = []
        for line in text.splitlines():
            name, _, key = line.partition(" ")
            keys.append(SecretKey(name, base64.b64decode(key, validate=True)))
        if not keys or any(len(one.key) != KEY_BYTES or not one.name for one in keys):
            raise SecretKeysUnusable(f"{self._path} has no key of {KEY_BYTES} bytes on a line")
        return tuple(keys)


def _bound(key_name: str, owner: str) -> bytes:
    """The text that binds a sealed one to its owner: moved to another, it does not open."""
    return f"{FORM}\0{key_name}\0{owner}".encode()
