"""Erased text is in no file of any node, also of one that was down meanwhile, and stays away after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

from node_cluster import CLOCK, ENTROPY, SECOND_US, Cluster, cluster, write

from veridical.log.identifier import uuid7
from veridical.memory.commands import encode_body
from veridical.memory.trust_commands import ERASE, EraseBody
from veridical.node.ports import BareCommand


def holding(made: Cluster, text: bytes) -> set[str]:
    """The nodes of which some file holds the text."""
    files = (file for file in made.data.rglob("*") if file.is_file())
    return {file.relative_to(made.data).parts[0] for file in files if text in file.read_bytes()}


def test_erased_text_is_in_no_file(tmp_path: Path) -> None:
    """Log, journals, rows, full text and free pages of three nodes, one of which missed it."""

    async def story() -> None:
        async with cluster(tmp_path) as made:
            leader = await made.leader()
            result = await write(leader, "vault", "the code is xyzzyplugh")
            for number in range(20):
                await write(leader, f"other {number}", "something else")
            await made.level()
            assert holding(made, b"xyzzyplugh") == {"n1", "n2", "n3"}
            away = next(name for name, node in made.nodes.items() if node is not leader)
            await made.stop(away)
            body = encode_body(ERASE, EraseBody(result.outcomes[0].record_id, "asked to"))
            erase = BareCommand(uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), ERASE, body)
            done = await leader.submit_anonymous([erase], 5 * SECOND_US)
            assert done.outcomes[0].code == "erased"
            await made.until(lambda: holding(made, b"xyzzyplugh") == {away})
            await made.start(away)
            await made.until(lambda: not holding(made, b"xyzzyplugh"))
            assert len(await made.digests()) == 1
            await made.stop(*list(made.nodes))
            await made.start(*made.names)
            assert len(await made.digests()) == 1
            assert not holding(made, b"xyzzyplugh")

    asyncio.run(story())
