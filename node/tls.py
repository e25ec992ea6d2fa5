"""TLS as gRPC wants it, from files that may be replaced while the node runs.

Both sides of every connection show a certificate of an authority that the other trusts. Members dial each other by
name, not by address: a certificate holds its node's name, so that whoever answers at a member's address is that member.
The files are looked at for every new connection; those that cannot be used leave what was read before in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import grpc
import structlog

from ..security.certificates import NODE, Described, Pair, check, described
from .config import ConfigError, Tls

OTHERS_MAY_READ: Final = 0o077
COMMON_NAME: Final = "x509_common_name"
CERTIFICATE: Final = "x509_pem_cert"
TRANSPORT: Final = "transport_security_type"
SECOND_US: Final = 1_000_000

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.tls")

Stamp = tuple[tuple[int, int, int], ...]


class Files(NamedTuple):
    """What the three files hold."""

    pair: Pair
    authorities: bytes
    says: Described


class Certificates:
    """The certificate, key and authorities of a node. Safe over threads. Raises `ConfigError` for unusable files.

    `problem` says why the newest files are not used, and is empty while they are.
    """

    def __init__(self, tls: Tls, wall_us: Callable[[], int]) -> None:
        self._tls = tls
        self._wall_us = wall_us
        self._lock = Lock()
        self.problem = ""
        self._stamp = self._stamped()
        try:
            self._files = self._read()
        except ValueError as error:
            raise ConfigError(f"{tls.certificate}: {error}") from error

    def server(self) -> grpc.ServerCredentials:
        """What to accept connections with, each with the files of that moment."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._configuration, require_client_authentication=True
        )

    def channel(self) -> grpc.ChannelCredentials:
        """What to dial other members with from now on."""
        files = self._current()
        return grpc.ssl_channel_credentials(files.authorities, files.pair.key, files.pair.certificate)

    @property
    def expiry_s(self) -> float:
        """How many seconds remain of the certificate that is in use."""
        return self._current().says.not_after.timestamp() - self._wall_us() / SECOND_US

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        files = self._current()
        return grpc.ssl_server_certificate_configuration(
            [(files.pair.key, files.pair.certificate)], files.authorities
        )  # fmt: skip

    def _current(self) -> Files:
        with self._lock:
            stamp = self._stamped()
            if stamp != self._stamp:
                self._stamp = stamp
                self._renew()
            return self._files

    def _renew(self) -> None:
        try:
            self._files = self._read()
        except (ConfigError, ValueError) as error:
            self.problem = str(error)
            _log.error("the new TLS files are not used", reason=self.problem, in_use_until=_day(self._files))
        else:
            self.problem = ""
            _log.info("new TLS files", certificate=self._files.says.sha256, until=_day(self._files))

    def _read(self) -> Files:
        tls = self._tls
        pair = Pair(_read(tls.certificate), _private(tls.key))
        authorities = _read(tls.authority)
        now = datetime.fromtimestamp(self._wall_us() / SECOND_US, UTC)
        return Files(pair, authorities, check(pair, authorities, now))

    def _stamped(self) -> Stamp:
        """Which files these are: they are read again when one of them is another."""
        return tuple(map(_stamp, (self._tls.certificate, self._tls.key, self._tls.authority)))


def certified_node(context: Mapping[str, Iterable[bytes]]) -> str | None:
    """The name of the node that a connection's certificate is of; None where there is no TLS.

    Empty for a certificate that is none of a node.
    """
    if b"ssl" not in context.get(TRANSPORT, ()):
        return None
    pem = b"".join(context.get(CERTIFICATE, ()))
    try:
        says = described(pem)
    except ValueError:
        return ""
    return says.name if says.kind == NODE else ""


def _day(files: Files) -> str:
    return files.says.not_after.isoformat()


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


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
