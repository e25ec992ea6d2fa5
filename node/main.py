"""The process of a node: `veridical node --config FILE`.

It starts whatever its peers do, logs in JSON when nobody watches, turns unready and hands leadership over on SIGTERM,
and ends with 0 then; with 1 when it had to end, and with 2 when its configuration cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from .config import Config, ConfigError, load
from .http import Probes
from .identity import StartRefused
from .runtime import Node
from .server import Server
from .settings import Settings
from .system import SystemClock, SystemEntropy
from .tls import Certificates
from .transport import GrpcTransport, Identity

COLLECTOR_THRESHOLDS: Final = (50_000, 20, 100)
"""Measured: a tenth less of a core under bulk writes than with the interpreter's own."""

ENDED_WELL: Final = 0
ENDED_BADLY: Final = 1
NOT_STARTED: Final = 2
BORN_ANEW: Final = -1
"""Not the end: this node's disk was an older copy, and the process goes on as a new member."""

SECOND_US: Final = 1_000_000
GRACE_S: Final = 2.0
FAREWELL_S: Final = 0.1
"""Having handed over, a node goes on relaying for so long: its callers learn from their answers who leads now."""

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.process")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a node until it is told to end; returns the exit code."""
    flags = vars(_parser().parse_args(arguments))
    path, check = flags.pop("config"), flags.pop("check")
    try:
        flags["peers"] = _peers(flags.pop("peer"))
        config = load(path, flags)
        if config.tls is not None:
            Certificates(config.tls, SystemClock().wall_us)
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is what `--check` is for
        return NOT_STARTED
    if check:
        print(f"{config.name} of {config.cluster} at {config.endpoint}: this configuration can be used")  # noqa: T201
        return ENDED_WELL
    configure_logging(config.log_level)
    return run(_process(config))


def run(process: Coroutine[Any, Any, int]) -> int:
    """Run it on uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(process)
    return uvloop.run(process)


def configure_logging(level: str) -> None:
    """Lines for people at a terminal, JSON for everybody else; on standard error, standard output stays free."""
    if sys.stderr.isatty():
        renderer: Any = structlog.dev.ConsoleRenderer()
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.ExceptionRenderer() if not sys.stderr.isatty() else _unchanged,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


class Process:
    """A node with its ports. `ended` is set by a signal or by the node itself; `reason` says why it had to end."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._ended = asyncio.Event()
        self._reason = ""
        entropy = SystemEntropy()
        self._certificates = None if config.tls is None else Certificates(config.tls, SystemClock().wall_us)
        self._transport = GrpcTransport(self._channel_credentials, entropy.random())
        source = config.lease.opened()
        told = config.model_dump(include=set(Settings.model_fields)) | {"external_lease": source is not None}
        settings = Settings.model_validate(told)
        self._node = Node(settings, self._transport, SystemClock(), entropy, self._on_fatal, source)
        if self._certificates is not None:
            self._node.metrics.watch_certificate(self._certificates)
        self._transport.attach(Identity(config.cluster, self._node.node_id))
        self._server = Server(
            self._node,
            config.cluster,
            config.bind,
            self._transport.heard,
            None if self._certificates is None else self._certificates.server(),
        )
        self._probes = Probes(self._node, self._node.metrics.exposition)

    def _channel_credentials(self) -> grpc.ChannelCredentials | None:
        return None if self._certificates is None else self._certificates.channel()

    async def run(self) -> int:
        """Serve until told to end."""
        try:
            await self._ended.wait()
            if not self._reason:
                await self._node.drain(int(self._config.drain_s * SECOND_US))
                await asyncio.sleep(FAREWELL_S)
        finally:
            if self._reason and not self._node.is_lost:
                await self._abandon()
            await self._stop()
        if self._node.is_lost:
            _log.warning("begins anew as another member", reason=self._reason)
            return BORN_ANEW
        _log.info("ended", reason="asked to")
        return ENDED_WELL

    async def start(self) -> None:
        """Listen, and begin to found or rejoin the cluster. Raises `OSError` when a port cannot be had."""
        config, loop = self._config, asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        http_port = await self._probes.start(config.http) if config.http else None
        await self._node.start()
        await self._server.start()
        _log.info("listening", node=config.name, id=self._node.node_id, address=config.bind, http_port=http_port)

    async def _abandon(self) -> None:
        """End the process, whatever still hangs: a thread that waits for a dead disk must not keep it alive."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self._stop()
        _log.error("ended", reason=self._reason)
        os._exit(ENDED_BADLY)

    async def _stop(self) -> None:
        await self._server.stop(GRACE_S)
        await self._node.stop()
        await self._probes.stop()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._ended.is_set():
            return
        _log.info("draining", signal=number.name)
        self._ended.set()

    def _on_fatal(self, reason: str) -> None:
        self._reason = reason
        self._ended.set()


def _spare_the_collector() -> None:
    """What is loaded by now stays, and most of what comes dies by reference count: look for cycles less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


async def _process(config: Config) -> int:
    code = BORN_ANEW
    while code == BORN_ANEW:
        try:
            process = Process(config)
            await process.start()
            _spare_the_collector()
        except (StartRefused, OSError, RuntimeError) as error:
            _log.error("not started", reason=str(error))
            return NOT_STARTED
        code = await process.run()
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="veridical node", description="Run one node of a cluster.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; flags go before it")
    parser.add_argument("--check", action="store_true", help="say whether the configuration can be used, and end")
    parser.add_argument("--name", help="this node's name, one of the peers")
    parser.add_argument("--cluster", help="the name of the cluster")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data directory")
    parser.add_argument("--endpoint", metavar="HOST:PORT", help="where others reach this node")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to accept gRPC (default: the endpoint)")
    parser.add_argument("--http", metavar="HOST:PORT", help="where to serve /livez, /readyz and /metrics")
    parser.add_argument("--peer", action="append", metavar="NAME=HOST:PORT", help="a first member; repeat for each")
    parser.add_argument("--write-quorum", type=int, metavar="W", help="how many nodes must hold a write")
    parser.add_argument("--runner-key", metavar="HEX", help="whose receipts count while nobody is enrolled")
    parser.add_argument("--log-level", choices=tuple(LEVELS))
    return parser


def _peers(listed: list[str] | None) -> dict[str, str] | None:
    if listed is None:
        return None
    peers: dict[str, str] = {}
    for item in listed:
        name, equals, address = item.partition("=")
        if not equals:
            raise ConfigError(f"--peer {item}: write it as NAME=HOST:PORT")
        peers[name] = address
    return peers


def _unchanged(_logger: Any, _name: str, event: Any) -> Any:
    return event
