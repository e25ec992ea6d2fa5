"""What members ask each other to compare and to repair, and what operators hear of it, as protobuf and back."""

from __future__ import annotations

from collections.abc import Sequence

from ..antientropy.digests import Snapshot
from ..antientropy.standing import Standing
from ..log.entry import Entry
from ..log.seal import Seal
from ..memory.errors import Unavailable
from ..proto.generated import admin_pb2, replication_pb2
from . import wire
from .ports import CompareRequest, MemberProof, RefetchRequest


def compare_request_to_wire(request: CompareRequest) -> replication_pb2.CompareRequest:
    """A member's question for digests."""
    return replication_pb2.CompareRequest(proof=_proof_to_wire(request.proof), indexes=request.indexes)


def compare_request_from_wire(raw: replication_pb2.CompareRequest) -> CompareRequest:
    """The question; the node checks the proof."""
    return CompareRequest(_proof(raw.proof), tuple(raw.indexes))


def snapshot_to_wire(snapshot: Snapshot) -> replication_pb2.CompareReply:
    """Digests at an index, or only the index."""
    return replication_pb2.CompareReply(
        applied_index=snapshot.applied, digests=snapshot.digests, embedder=snapshot.embedder,
        runner_key=snapshot.runner_key,
    )  # fmt: skip


def snapshot_from_wire(raw: replication_pb2.CompareReply) -> Snapshot:
    """The same."""
    return Snapshot(raw.applied_index, tuple(raw.digests), raw.embedder, raw.runner_key)


def refetch_request_to_wire(request: RefetchRequest) -> replication_pb2.RefetchRequest:
    """A member's question for entries."""
    return replication_pb2.RefetchRequest(
        proof=_proof_to_wire(request.proof), first=request.first, last=request.last
    )  # fmt: skip


def refetch_request_from_wire(raw: replication_pb2.RefetchRequest) -> RefetchRequest:
    """The question; the node checks the proof."""
    return RefetchRequest(_proof(raw.proof), raw.first, raw.last)


def refetched_to_wire(entries: Sequence[Entry], seals: Sequence[Seal]) -> replication_pb2.RefetchReply:
    """Entries and their seals."""
    return replication_pb2.RefetchReply(
        entries=map(wire.entry_to_wire, entries), seals=map(wire.seal_to_wire, seals)
    )  # fmt: skip


def refetched_from_wire(raw: replication_pb2.RefetchReply) -> tuple[list[Entry], list[Seal]]:
    """The same. Raises `Unavailable` for what no member sends."""
    try:
        return list(map(wire.entry_from_wire, raw.entries)), list(map(wire.seal_from_wire, raw.seals))
    except wire.Malformed as error:
        raise Unavailable(f"the answer is malformed: {error}") from error


def standing_to_wire(name: str, standing: Standing, done: bool) -> admin_pb2.AntiEntropyReply:
    """How a node's anti-entropy stands."""
    scrub = standing.scrub
    return admin_pb2.AntiEntropyReply(
        node=name,
        compared_wall_us=standing.compared_wall_us,
        peers=[
            admin_pb2.PeerComparison(
                name=peer.name,
                index=peer.index,
                differing=peer.differing,
                reason=peer.reason,
                judged=peer.judged,
                embedder=peer.embedder,
                runner=peer.runner,
            )
            for peer in standing.peers
        ],
        scrub_done=scrub.done,
        scrub_total=scrub.total,
        scrub_rows=scrub.rows,
        scrub_passes=scrub.passes,
        scrub_finished_wall_us=scrub.finished_wall_us,
        differences=standing.differences,
        findings=standing.findings,
        repairs=standing.repairs,
        doing=standing.doing,
        notes=[admin_pb2.AntiEntropyNote(wall_us=note.wall_us, text=note.text) for note in standing.notes],
        done=done,
    )


def _proof_to_wire(proof: MemberProof) -> replication_pb2.MemberProof:
    return replication_pb2.MemberProof(
        node=proof.node_id, cluster_id=proof.cluster_id, wall_us=proof.wall_us, signature=proof.signature
    )


def _proof(raw: replication_pb2.MemberProof) -> MemberProof:
    return MemberProof(raw.node, raw.cluster_id, raw.wall_us, raw.signature)
