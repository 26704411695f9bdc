"""The keys for secret variables, in a private file of the data folder."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.local.secret_box import AesSecretBox, SecretKeyFile

KEY_FILE = "secret-keys"


def secret_box(folder: Path, *, create: bool = False) -> AesSecretBox:
    """The box with the keys of a data folder. Raises SecretKeysUnusable.

    With `create`, the first key is made; only the holder of the folder's lock may do that.
    """
    file = SecretKeyFile(folder / KEY_FILE)
    if create:
        file.create()
    return AesSecretBox(file.keys)


def rotate_secret_key(folder: Path) -> tuple[Path, str]:
    """Add a key to those of a data folder; the file, and the key's name.

    A running server uses it from the next session on. Raises SecretKeysUnusable.
    """
    path = folder / KEY_FILE
    return path, SecretKeyFile(path).rotate()
