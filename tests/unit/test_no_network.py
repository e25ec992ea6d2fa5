"""A memory of one's own process never asks a network for anything: not when imported, used, reviewed or closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GUARD = """
import sys
attempts = []
def guard(event, arguments):
    if not event.startswith("socket."):
        return
    family = getattr(arguments[0], "family", 0) if arguments else 0
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"):
        attempts.append((event, arguments[0]))
        raise PermissionError(event)
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg") and family in (2, 10):
        attempts.append((event, arguments[1]))
        raise PermissionError(event)
sys.addaudithook(guard)
"""

USE = """
from veridical.memory import LocalMemory, MemoryRecord, Principal, ReplicatedMemory
from veridical.fleet import InMemoryLeaseStore
path = sys.argv[1]
def use(memory):
    with memory:
        first = memory.write(MemoryRecord(subject="auth", predicate="uses", text="JWT", source="doc:1"))
        memory.write_many([MemoryRecord(text=f"sentence {n}") for n in range(20)])
        assert memory.recall("JWT")[0].id == first.id
        assert [item.record.id for item in memory.review_queue(scope="global", limit=100)]
        memory.approve(first.id)
        memory.set_scope_parent("repo:a", "team:f")
        memory.lattice_recall("JWT", scope="repo:a", lattice=memory.lattice())
        memory.enroll(Principal(b"a" * 32), grants={"*": ["read", "write", "admin", "review"]})
        memory.principals(); memory.scopes(); memory.status(); memory.decay(); memory.history(first.id)
        assert memory.forget(first.id, reason="done").outcome == "forgotten"
principal = Principal(b"a" * 32)
use(LocalMemory(path, principal=principal))
use(LocalMemory(":memory:", principal=principal))
leases = InMemoryLeaseStore()
members = [
    ReplicatedMemory(
        LocalMemory(":memory:"), leases=leases, cluster_key="k", owner=owner, principal=principal,
        read_consistency="strong",
    )
    for owner in "ABC"
]
use(members[0])
for member in members:
    member.close()
loaded = sorted({name.split(".")[0] for name in sys.modules} & {"grpc", "requests", "httpx", "aiohttp", "openai"})
print(attempts, loaded)
"""

ATTEMPT = """
import socket
try:
    socket.create_connection(("192.0.2.1", 9), timeout=0.01)
except PermissionError as error:
    print(attempts)
"""


def run(code: str, *arguments: str) -> str:
    """What a process of its own prints, in which every way to a network is watched and closed."""
    command = [sys.executable, "-P", "-W", "error", "-c", GUARD + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_guard_sees_an_attempt() -> None:
    """Otherwise the next test would prove nothing."""
    assert "192.0.2.1" in run(ATTEMPT)


def test_a_memory_in_process_attempts_none(tmp_path: Path) -> None:
    """In one file, without a file, and as a cluster of three members; nothing that speaks to networks is loaded."""
    assert run(USE, str(tmp_path / "brain.db")) == "[] []"
