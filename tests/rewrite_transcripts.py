"""Write every transcript anew, as the core tells it now (`make transcripts`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "unit"))
sys.path.insert(0, str(Path(__file__).parent))

from test_replication_transcripts import TRANSCRIPTS, retold

for path in TRANSCRIPTS:
    path.write_text(retold(path.read_text()))
