"""TLS as gRPC wants it, from files. Both sides of every connection show a certificate of the cluster's authority."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import grpc

from .config import ConfigError, Tls

OTHERS_MAY_READ: Final = 0o077


def server_credentials(tls: Tls | None) -> grpc.ServerCredentials | None:
    """What to accept connections with; None for none. Raises `ConfigError`."""
    if tls is None:
        return None
    pair = (_private(tls.key), _read(tls.certificate))
    return grpc.ssl_server_credentials([pair], _read(tls.authority), require_client_auth=True)


def channel_credentials(tls: Tls | None) -> grpc.ChannelCredentials | None:
    """What to dial other members with; None for none. Raises `ConfigError`."""
    if tls is None:
        return None
    return grpc.ssl_channel_credentials(_read(tls.authority), _private(tls.key), _read(tls.certificate))


def _private(path: Path) -> bytes:
    raw = _read(path)
    if path.stat().st_mode & OTHERS_MAY_READ:
        raise ConfigError(f"{path}: others may read the key; run: chmod 600 {path}")
    return raw


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
