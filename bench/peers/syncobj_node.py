"""One PySyncObj process behind a gRPC door: `ME OTHERS PORT JOURNAL`, the others separated by commas."""

# pyright: basic, reportMissingImports=false, reportCallIssue=false

from __future__ import annotations

import sys
import threading
from concurrent import futures
from typing import Any

import grpc
from pysyncobj import SyncObj, SyncObjConf, replicated

KEY_BYTES = 16
TUNED = {"autoTickPeriod": 0.001, "appendEntriesPeriod": 0.001, "appendEntriesUseBatch": True}
"""Its defaults wait for a tick of a tenth of a second before each round."""


class Store(SyncObj):
    """A replicated dictionary."""

    def __init__(self, me: str, others: list[str], journal: str) -> None:
        super().__init__(me, others, SyncObjConf(journalFile=journal, dynamicMembershipChange=False, **TUNED))
        self.values: dict[bytes, bytes] = {}

    @replicated
    def put(self, key: bytes, value: bytes) -> int:
        """Keep one value."""
        self.values[key] = value
        return 1


class Door(grpc.GenericRpcHandler):
    """Takes raw bytes: `/peer/Put` with key and value, `/peer/Leader` with nothing."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call."""
        method = self.put if handler_call_details.method.endswith("Put") else self.leader
        return grpc.unary_unary_rpc_method_handler(method)

    def put(self, request: bytes, context: Any) -> bytes:
        """Replicate one value, and answer when it is."""
        done, errors = threading.Event(), list[Any]()
        key, value = request[:KEY_BYTES], request[KEY_BYTES:]
        self.store.put(key, value, callback=lambda _, error: (errors.append(error), done.set()))
        if not done.wait(5) or errors[0]:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not replicated")
        return b""

    def leader(self, _request: bytes, _context: Any) -> bytes:
        """Who leads, as host:port, or nothing."""
        leader = self.store._getLeader()  # it has no public name
        return str(leader).encode() if leader else b""


def main() -> None:
    """Serve until killed."""
    me, others, port, journal = sys.argv[1:5]
    store = Store(me, others.split(","), journal)
    server = grpc.server(futures.ThreadPoolExecutor(96), handlers=[Door(store)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


main()
