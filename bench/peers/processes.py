"""Processes on this machine: ports, time and memory used, raw gRPC calls."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import grpc.aio

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind((HOST, 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def is_listening(port: int) -> bool:
    """Whether somebody accepts at that port of loopback."""
    with closing(socket.socket()) as trial:
        trial.settimeout(0.2)
        return trial.connect_ex((HOST, port)) == 0


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll a condition until it holds, or say what did not come."""
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise TimeoutError(f"{what} did not come in {seconds} s")
        time.sleep(0.01)


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def call(channel: grpc.aio.Channel, method: str, request: bytes, timeout_s: float) -> bytes:
    """One unary call of raw bytes."""
    operation = cast(Callable[..., Awaitable[bytes]], channel.unary_unary(method))
    return await operation(request, timeout=timeout_s)
