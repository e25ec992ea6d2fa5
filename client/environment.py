"""What the environment says of a memory elsewhere: where its nodes are, who signs, how fresh reads are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..memory.errors import Invalid

if TYPE_CHECKING:
    import grpc

    from ..security.principal import Principal
    from ..security.tokens import BearerToken

ENDPOINTS_VARIABLE: Final = "VERIDICAL_ENDPOINTS"
TOKEN_VARIABLE: Final = "VERIDICAL_TOKEN"
PRINCIPAL_VARIABLE: Final = "VERIDICAL_PRINCIPAL_SEED"
READ_VARIABLE: Final = "VERIDICAL_READ_CONSISTENCY"
TIMEOUT_VARIABLE: Final = "VERIDICAL_TIMEOUT_S"
AUTHORITY_VARIABLE: Final = "VERIDICAL_TLS_AUTHORITY"
CERTIFICATE_VARIABLE: Final = "VERIDICAL_TLS_CERTIFICATE"
KEY_VARIABLE: Final = "VERIDICAL_TLS_KEY"
OTHERS_MAY_READ: Final = 0o077
READ_DEFAULT: Final = "session"


def named_endpoints() -> list[str]:
    """The nodes in `VERIDICAL_ENDPOINTS`, parted by commas or spaces; none where it is not set."""
    return os.environ.get(ENDPOINTS_VARIABLE, "").replace(",", " ").split()


def principal() -> Principal | None:
    """Who signs what this process says: the seed in `VERIDICAL_PRINCIPAL_SEED`, or nobody. Raises `Invalid`."""
    seed = os.environ.get(PRINCIPAL_VARIABLE, "").strip()
    if not seed:
        return None
    from ..security.principal import Principal

    try:
        return Principal.from_hex(seed)
    except ValueError as error:
        raise Invalid(PRINCIPAL_VARIABLE, str(error)) from error


def token() -> BearerToken | None:
    """The bearer token in `VERIDICAL_TOKEN`, or none. Raises `Invalid`, which does not repeat it."""
    text = os.environ.get(TOKEN_VARIABLE, "").strip()
    return _token(TOKEN_VARIABLE, text) if text else None


def token_in(file: Path) -> BearerToken:
    """The bearer token in a file that nobody else may read. Raises `Invalid`."""
    try:
        if file.stat().st_mode & OTHERS_MAY_READ:
            raise Invalid("token-file", f"{file}: others may read it; run: chmod 600 {file}")
        return _token(str(file), file.read_text(encoding="ascii", errors="replace").strip())
    except OSError as error:
        raise Invalid("token-file", f"{file}: {error.strerror}") from error


def _token(where: str, text: str) -> BearerToken:
    from ..security.tokens import BearerToken

    try:
        return BearerToken(text)
    except ValueError as error:
        raise Invalid(where, str(error)) from None


def connection_options() -> dict[str, Any]:
    """The options of a client that asks those nodes. Raises `Invalid`."""
    options: dict[str, Any] = {"read_consistency": os.environ.get(READ_VARIABLE) or READ_DEFAULT}
    timeout = os.environ.get(TIMEOUT_VARIABLE)
    if timeout:
        options["timeout_s"] = _seconds(timeout)
    return options | {"principal": principal(), "token": token(), "credentials": credentials()}


def credentials() -> grpc.ChannelCredentials | None:
    """TLS as the environment names its files (PEM): `VERIDICAL_TLS_AUTHORITY` alone, or with certificate and key.

    None where it names none. Raises `Invalid`.
    """
    authority, certificate, key = (
        os.environ.get(name, "") for name in (AUTHORITY_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)
    )
    if not authority and not certificate and not key:
        return None
    if not authority or bool(certificate) != bool(key):
        raise Invalid(AUTHORITY_VARIABLE, f"set it, and {CERTIFICATE_VARIABLE} and {KEY_VARIABLE} both or none of them")
    return tls_credentials(authority, certificate or None, key or None)


def tls_credentials(
    authority: str | Path, certificate: str | Path | None = None, key: str | Path | None = None
) -> grpc.ChannelCredentials:  # fmt: skip
    """gRPC credentials from PEM files: whom to trust, and who one is. Raises `Invalid`."""
    import grpc

    parts = [None if path is None else _pem(Path(path)) for path in (authority, key, certificate)]
    if key is not None and Path(key).stat().st_mode & OTHERS_MAY_READ:
        raise Invalid("key", f"{key}: others may read it; run: chmod 600 {key}")
    return grpc.ssl_channel_credentials(*parts)


def _pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid("tls", f"{path}: {error.strerror}") from error


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(TIMEOUT_VARIABLE, f"{text!r} is not a number of seconds") from None
