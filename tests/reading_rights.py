"""Who sees what: one table of rights and questions, asked of a memory through whatever door it has.

Each question is put as it goes over the wire, so that also those are asked which no client puts into words. An answer
is told as the set of scopes it speaks of: `REFUSED` where there is none, `WHOLE` where it is about the whole store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from veridical.client.bearer import Asking
from veridical.client.blocking import BlockingMemory
from veridical.client.surface import AsyncMemory
from veridical.memory import MemoryRecord, Principal
from veridical.memory.errors import Refused
from veridical.node.rows import record_of
from veridical.proto.generated import memory_pb2

HERE, THERE = "team:a", "team:b"
REFUSED: Final = frozenset({"refused"})
WHOLE: Final = frozenset({"the whole"})
BOTH, NOTHING = frozenset({HERE, THERE}), frozenset[str]()
A, B = frozenset({HERE}), frozenset({THERE})

DAY_US: Final = 86_400_000_000
HALF_LIFE_US: Final = 7 * DAY_US
TIMEOUT_S: Final = 10.0

QUESTIONS: Final = (
    "get", "recall", "recall here", "recall there", "recall unknown", "recall both", "all", "all there",
    "history here", "history there", "scopes", "counts", "prunable", "digest", "queue", "queue there", "lattice",
    "rejections here", "rejections there",
)  # fmt: skip

Grants = Mapping[str, tuple[str, ...]]

ROLES: Final[Mapping[str, Grants]] = {
    "administrator": {"*": ("read", "write", "review", "attest", "vouch", "admin")},
    "reader here": {HERE: ("read",)},
    "reader of teams": {"team:*": ("read",)},
    "reader": {"*": ("read",)},
    "writer here": {HERE: ("write",)},
    "writer": {"*": ("write",)},
    "giver of rights": {"*": ("admin",)},
    "giver of rights here": {HERE: ("admin",)},
    "reviewer": {"*": ("review", "attest", "vouch")},
    "reviewer here": {HERE: ("review",)},
    "revoked": {"*": ("read", "write")},
}
PRINCIPALS: Final = {role: Principal(bytes([place + 1]) * 32) for place, role in enumerate([*ROLES, "stranger"])}
ADMINISTRATOR: Final = PRINCIPALS["administrator"]

Row = Mapping[str, frozenset[str]]

_NONE: Final[dict[str, frozenset[str]]] = dict.fromkeys(QUESTIONS, REFUSED)
_ALL: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(QUESTIONS, BOTH), "recall here": A, "recall there": B, "recall unknown": NOTHING, "all there": B,
    "history here": A, "history there": B, "counts": WHOLE, "digest": WHOLE, "queue there": B, "rejections here": A,
    "rejections there": B,
}  # fmt: skip
_HERE: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(QUESTIONS, A), "recall there": REFUSED, "recall unknown": REFUSED, "recall both": REFUSED,
    "all there": REFUSED, "history there": NOTHING, "counts": REFUSED, "prunable": REFUSED, "digest": REFUSED,
    "queue": REFUSED, "queue there": REFUSED, "lattice": NOTHING, "rejections there": NOTHING,
}  # fmt: skip
_READING: Final = {**_ALL, **dict.fromkeys(("prunable", "digest", "queue", "queue there"), REFUSED)}

OPEN: Final = _ALL
"""What everybody sees while nobody is enrolled."""

TABLE: Final[Mapping[str, Row]] = {
    "administrator": _ALL,
    "reader here": _HERE,
    "reader of teams": {**_READING, "counts": REFUSED},
    "reader": _READING,
    "writer here": {**_NONE, "prunable": A},
    "writer": {**_NONE, "prunable": BOTH},
    "giver of rights": {**_NONE, "digest": WHOLE},
    "giver of rights here": _NONE,
    "reviewer": {**_NONE, "queue": BOTH, "queue there": B},
    "reviewer here": {**_NONE, "queue": A},
    "revoked": _NONE,
    "stranger": _NONE,
}


class Store:
    """A memory with one fact in each of two scopes, both of which time will take away, where another was rejected."""

    def __init__(self, memory: BlockingMemory) -> None:
        """`memory` belongs to the administrator, and holds nothing yet."""
        self._memory = memory
        self._scopes: dict[bytes, str] = {}
        for scope in (HERE, THERE):
            sky = MemoryRecord(subject="the sky", predicate="is", text=f"green in {scope}", scope=scope)
            memory.reject(memory.write(sky).id, reason="look at it")
            written = memory.write(sky.model_copy(update={"text": "a blue value"}))
            memory.set_flags(written.id, ttl_s=3600)
            self._scopes[bytes.fromhex(written.id)] = scope
        memory.set_scope_parent(HERE, THERE)

    def guard(self) -> None:
        """Enroll everybody, the administrator first, and revoke whoever is to be revoked."""
        for role, grants in ROLES.items():
            self._memory.enroll(PRINCIPALS[role], name=role, grants=grants)
        self._memory.revoke(PRINCIPALS["revoked"], reason="left")

    def seen_by(self, principal: Asking | None) -> dict[str, frozenset[str]]:
        """What each question tells that principal, or the holder of that token."""
        return {name: self._seen(name, principal) for name in QUESTIONS}

    def _seen(self, name: str, principal: Asking | None) -> frozenset[str]:
        request = self._question(name)
        request.mode = memory_pb2.READ_MODE_STRONG

        async def ask(memory: AsyncMemory) -> memory_pb2.ReadReply:
            deadline = asyncio.get_running_loop().time() + TIMEOUT_S
            route = memory._route  # pyright: ignore[reportPrivateUsage] - what every call goes through
            return await route.ask(request, principal, deadline)

        try:
            begin = self._memory._begin  # pyright: ignore[reportPrivateUsage]
            reply = begin(ask).result()
        except Refused as refusal:
            return REFUSED if refusal.rule == "not_granted" else frozenset({refusal.rule})
        return self._told(reply)

    def _question(self, name: str) -> memory_pb2.ReadRequest:
        here, there = self._scopes
        filters = {
            "here": (HERE,), "there": (THERE,), "unknown": ("team:c",), "both": (HERE, THERE)
        }  # fmt: skip
        verb, _, what = name.partition(" ")
        asked = memory_pb2.Filters(scopes=filters.get(what, ()), has_scopes=what in filters)
        questions: dict[str, Callable[[], memory_pb2.ReadRequest]] = {
            "get": lambda: memory_pb2.ReadRequest(get=memory_pb2.Get(ids=[here, there])),
            "recall": lambda: memory_pb2.ReadRequest(recall=memory_pb2.Recall(query="blue", k=10, filters=asked)),
            "all": lambda: memory_pb2.ReadRequest(all=memory_pb2.All(filters=asked, limit=10)),
            "history": lambda: memory_pb2.ReadRequest(
                history=memory_pb2.History(id=here if what == "here" else there, limit=10)
            ),
            "scopes": lambda: memory_pb2.ReadRequest(scopes=memory_pb2.Scopes()),
            "counts": lambda: memory_pb2.ReadRequest(counts=memory_pb2.Counts()),
            "digest": lambda: memory_pb2.ReadRequest(digest=memory_pb2.Digest()),
            "queue": lambda: memory_pb2.ReadRequest(review_queue=memory_pb2.ReviewQueue(filters=asked, limit=10)),
            "lattice": lambda: memory_pb2.ReadRequest(lattice=memory_pb2.Lattice()),
            "rejections": lambda: memory_pb2.ReadRequest(
                rejections=memory_pb2.Rejections(id=here if what == "here" else there)
            ),
            "prunable": lambda: memory_pb2.ReadRequest(
                prunable=memory_pb2.Prunable(at_us=4_000_000_000_000_000, half_life_us=HALF_LIFE_US, limit=10)
            ),
        }
        return questions[verb]()

    def _told(self, reply: memory_pb2.ReadReply) -> frozenset[str]:
        """The scopes that an answer speaks of."""
        answer = reply.WhichOneof("answer")
        if answer in ("totals", "digests"):
            return WHOLE
        if answer == "scope_counts":
            return frozenset(item.scope for item in reply.scope_counts.scopes)
        if answer == "lattice":
            return frozenset(scope for pair in reply.lattice.pairs for scope in (pair.scope, pair.parent))
        if answer == "barred":
            return frozenset(value.text.removeprefix("green in ") for value in reply.barred.values)
        if answer == "ids":
            return frozenset(self._scopes[id] for id in reply.ids.ids)
        rows = {
            "records": [found.row for found in reply.records.found],
            "hits": [hit.row for hit in reply.hits.hits],
            "page": list(reply.page.rows),
            "history": [item.row for item in reply.history.items],
            "reviews": [review.row for review in reply.reviews.reviews],
        }[answer or ""]
        return frozenset(record.scope for row in rows if (record := record_of(row)) is not None)


def check_rights(memory: BlockingMemory) -> None:
    """Ask everything of everybody, before and after anybody is enrolled. `memory` is the administrator's, and empty."""
    store = Store(memory)
    everybody: dict[str, Principal | None] = {**PRINCIPALS, "nobody": None}
    assert {who: store.seen_by(principal) for who, principal in everybody.items()} == dict.fromkeys(everybody, OPEN)
    store.guard()
    seen = {who: store.seen_by(principal) for who, principal in everybody.items()}
    assert seen == {**TABLE, "nobody": _NONE}
    tokens = {role: memory.issue_token(PRINCIPALS[role]).token for role in ROLES if role != "revoked"}
    assert {role: store.seen_by(token) for role, token in tokens.items()} == {role: TABLE[role] for role in tokens}
