"""What a node process is told: a TOML file, flags over it, the environment (`VERIDICAL_…`) beneath it.

name = "n1"
cluster = "veridical"
data = "/var/lib/veridical"
endpoint = "127.0.0.1:7400"
http = "127.0.0.1:7500"

[peers]
n1 = "127.0.0.1:7400"
n2 = "127.0.0.1:7401"
n3 = "127.0.0.1:7402"

[lease]
source = "etcd"
endpoints = ["http://127.0.0.1:2379"]
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from ..lease.etcd import EtcdLeaseStore, EtcdTls
from ..lease.sources import LeaseSource, SqliteLeaseStore
from .addresses import is_loopback, is_wildcard, split
from .settings import Settings

ENVIRONMENT: Final = "VERIDICAL_NODE_"
FROM_ENVIRONMENT: Final = (
    "name",
    "cluster",
    "data",
    "endpoint",
    "listen",
    "http",
    "runner_key",
    "log_level",
    "embedder",
)


class ConfigError(ValueError):
    """The configuration cannot be used. The text says which setting is wrong and what to set instead."""


class Tls(BaseModel):
    """Mutual TLS: this node's certificate and key, and the authority that signs every peer's and client's (PEM).

    Keys are ECDSA or RSA: the TLS of gRPC takes no Ed25519 certificates.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path
    key: Path
    authority: Path


class LeaseChoice(BaseModel):
    """Who decides who may try to lead: the members themselves (`quorum`), or beside them an etcd or a SQLite file.

    The epoch is granted by the members in any case. `endpoints` are the etcd's URLs, with `authority`, `certificate`
    and `key` (PEM) where they begin with https; `path` is the SQLite file, for nodes of one machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["quorum", "etcd", "sqlite"] = "quorum"
    endpoints: tuple[str, ...] = ()
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    path: Path | None = None

    @model_validator(mode="after")
    def _can_be_opened(self) -> LeaseChoice:
        self.opened()
        return self

    def opened(self) -> LeaseSource | None:
        """The source; None for the members alone."""
        if self.source == "etcd":
            return EtcdLeaseStore(self.endpoints, EtcdTls(self.authority, self.certificate, self.key))
        if self.source == "sqlite":
            if self.path is None:
                raise ValueError("name the file of the SQLite lease store: lease.path")
            return SqliteLeaseStore(self.path)
        return None


class Config(Settings):
    """`Settings` of the node, and how its process listens and logs."""

    listen: str = ""
    """Where to accept gRPC; empty: at `endpoint`."""
    http: str = ""
    """Where to serve /livez, /readyz and /metrics; empty: nowhere."""
    tls: Tls | None = None
    lease: LeaseChoice = LeaseChoice()
    log_level: str = "info"
    drain_s: float = 10.0
    """How long SIGTERM waits for a successor and for what is under way."""

    @field_validator("endpoint", "listen", "http")
    @classmethod
    def _is_address(cls, address: str) -> str:
        if address:
            split(address)
        return address

    @field_validator("peers")
    @classmethod
    def _are_addresses(cls, peers: dict[str, str]) -> dict[str, str]:
        for name, address in peers.items():
            if is_wildcard(address):
                raise ValueError(f"{name} = {address!r} names every address; write the one at which it is reached")
        return peers

    @field_validator("log_level")
    @classmethod
    def _is_level(cls, level: str) -> str:
        if level not in ("debug", "info", "warning", "error"):
            raise ValueError("one of debug, info, warning, error")
        return level

    @model_validator(mode="after")
    def _keeps_what_it_is_told(self) -> Config:
        if self.data is None:
            raise ValueError("data: name a directory for this node alone; it keeps its history and its keys there")
        return self

    @model_validator(mode="after")
    def _is_reachable_and_safe(self) -> Config:
        if is_wildcard(self.endpoint):
            raise ValueError(
                f"endpoint = {self.endpoint!r} names every address and so tells nobody where this node is; set endpoint"
                " to the host:port at which the others reach it, and listen to the wildcard if you want it"
            )
        for name in ("bind", "http"):
            address = self.bind if name == "bind" else self.http
            if address and self.tls is None and not is_loopback(address):
                raise ValueError(
                    f"{'listen' if name == 'bind' else 'http'} = {address!r} can be reached from other machines, which "
                    "needs TLS: set tls.certificate, tls.key and tls.authority, or listen on a loopback address such "
                    "as 127.0.0.1"
                )
        return self

    @property
    def bind(self) -> str:
        """Where to accept gRPC."""
        return self.listen or self.endpoint


def load(path: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Config:
    """The configuration: flags that are not None go before the file, the file goes before the environment.

    Raises `ConfigError`.
    """
    values: dict[str, Any] = {
        name: environment[variable]
        for name in FROM_ENVIRONMENT
        if (variable := ENVIRONMENT + name.upper()) in environment
    }
    values |= {} if path is None else _file(path)
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explained(error, path)) from error


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error


def _explained(error: ValidationError, path: Path | None) -> str:
    lines = [f"{path or 'flags'}: this configuration cannot be used"]
    for problem in error.errors():
        name = ".".join(map(str, problem["loc"]))
        reason = problem["msg"].removeprefix("Value error, ")
        lines.append(f"  {name}: {reason}" if name else f"  {reason}")
    return "\n".join(lines)
