"""Ed25519 keys. A public key is its own name: 32 raw bytes in binary, 64 hex digits in text.

Seeds live in files of 64 hex digits that only their owner may read (mode 0600).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

from nacl import bindings
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
SEED_FILE_MODE = 0o600
CHECKS_PER_TASK = 64
"""Signatures that one task of an executor checks: some 3 ms of work, so that the hop costs less than a percent."""

_HEX_SEED = re.compile(r"[0-9a-fA-F]{64}")


class KeyFileError(ValueError):
    """A key file is missing, unsafe or malformed. The text names the file and says what to do about it."""


class UnsealError(ValueError):
    """The sealed message was not sealed to this key, or was changed on its way."""


class KeyPair:
    """An Ed25519 key pair made from a 32-byte seed. Raises `ValueError` for a seed of any other length."""

    __slots__ = ("_secret", "public_key", "seed")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a key seed has {SEED_BYTES} bytes, not {len(seed)}")
        self.seed = bytes(seed)
        self.public_key, self._secret = bindings.crypto_sign_seed_keypair(self.seed)

    def sign(self, message: bytes) -> bytes:
        """The detached signature of `message`, 64 bytes."""
        return bindings.crypto_sign(message, self._secret)[:SIGNATURE_BYTES]

    def unsealed(self, box: bytes) -> bytes:
        """What `sealed_to(self.public_key, …)` enclosed. Raises `UnsealError` for anything else."""
        private = bindings.crypto_sign_ed25519_sk_to_curve25519(self._secret)
        try:
            return SealedBox(PrivateKey(private)).decrypt(box)
        except (CryptoError, ValueError, TypeError) as error:
            raise UnsealError("not sealed to this key, or changed") from error

    def __repr__(self) -> str:
        """The public half only, so that no log line carries a seed."""
        return f"KeyPair({self.public_key.hex()})"


class SignatureCheck(NamedTuple):
    """A signature to be checked: whose, over what, and the 64 bytes."""

    public_key: bytes
    message: bytes
    signature: bytes


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is that of this key over `message`. Malformed keys and signatures are false, no error."""
    if len(public_key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        bindings.crypto_sign_open(signature + message, public_key)
    except CryptoError:
        return False
    return True


def verify_many(checks: Sequence[SignatureCheck], executor: Executor | None = None) -> list[bool]:
    """The result of `verify` for each check, in order; spread over the threads of `executor` when there is one."""
    if executor is None:
        return _verify_all(checks)
    tasks = [checks[start : start + CHECKS_PER_TASK] for start in range(0, len(checks), CHECKS_PER_TASK)]
    return [result for results in executor.map(_verify_all, tasks) for result in results]


def sealed_to(public_key: bytes, message: bytes) -> bytes:
    """`message` enclosed so that only the holder of that Ed25519 key can read it. Raises `ValueError` for a bad key."""
    try:
        recipient = PublicKey(bindings.crypto_sign_ed25519_pk_to_curve25519(public_key))
    except (CryptoError, TypeError) as error:
        raise ValueError("not an Ed25519 public key") from error
    return SealedBox(recipient).encrypt(message)


def seed_from_hex(text: str) -> bytes:
    """The seed that 64 hex digits spell. Raises `ValueError` for anything else, without repeating the text."""
    if _HEX_SEED.fullmatch(text) is None:
        raise ValueError(f"a seed is written as {2 * SEED_BYTES} hex digits")
    return bytes.fromhex(text)


def load_seed(path: str | os.PathLike[str]) -> bytes:
    """The seed in a file that `create_seed` wrote. Raises `KeyFileError` unless the file is private and well-formed."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            text = stream.read(2 * SEED_BYTES + 2)
    except OSError as error:
        raise KeyFileError(f"{file}: cannot read the key: {error.strerror}") from error
    if mode != SEED_FILE_MODE:
        raise KeyFileError(f"{file}: mode is {mode:04o}, others may read the key; run: chmod 600 {file}")
    try:
        return seed_from_hex(text.decode("ascii").strip())
    except ValueError as error:
        raise KeyFileError(f"{file}: not a key file ({2 * SEED_BYTES} hex digits expected)") from error


def create_seed(path: str | os.PathLike[str], entropy: bytes) -> bytes:
    """Write 32 random bytes as a new key file, durable on return, and hand them back. Never overwrites a file."""
    if len(entropy) != SEED_BYTES:
        raise ValueError(f"a key seed has {SEED_BYTES} bytes, not {len(entropy)}")
    file = Path(path)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SEED_FILE_MODE)
    except FileExistsError as error:
        raise KeyFileError(f"{file}: a key exists already; keys are never overwritten") from error
    except OSError as error:
        raise KeyFileError(f"{file}: cannot write the key: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, SEED_FILE_MODE)
        stream.write(entropy.hex().encode("ascii") + b"\n")
        stream.flush()
        os.fsync(descriptor)
    _sync_directory(file.parent)
    return bytes(entropy)


def _verify_all(checks: Sequence[SignatureCheck]) -> list[bool]:
    return [verify(*check) for check in checks]


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
