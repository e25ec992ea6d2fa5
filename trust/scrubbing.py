"""Fingerprints of failures: what stays the same when the same thing fails again, elsewhere and later."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from ..memory.text import canonical_text
from ..verdict import Finding

KEY_FORM: Final = re.compile(r"fp:[0-9a-f]{32}")
_OPAQUE: Final = re.compile(r"[0-9a-fA-F-]{7,}")  # a fingerprint that is a digest already
_TAG: Final = b"veridical/failure/1\0"

# Order counts: what is made of digits goes first as a whole. `E501` and `utf8` are names, and stay.
_VARYING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d)\b)?)?"), "{time}"),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b(?!:)"), "{time}"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "{uuid}"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "{hex}"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{7,}\b"), "{hex}"),
    (re.compile(r"\"(?:[^\"\\\n]|\\.){0,500}\"|`[^`\n]{0,500}`|(?<!\w)'(?:[^'\\\n]|\\.){0,500}'(?!\w)"), "{quoted}"),
    (re.compile(r"(?<![\w.~@+-])(?:[A-Za-z]:)?(?:[\w.~@+-]{0,255}[/\\])+[\w.@+-]*(?::\d+){0,2}"), "{path}"),
    (re.compile(r"(?<![A-Za-z_\d])[-+]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?"), "{n}"),
)
_LINE: Final = re.compile(r"(?::\d+){1,2}$|[ ,]*\bline \d+.*$")


def scrubbed(message: str) -> str:
    """A message without what varies: times, ids, hex, quoted values, paths, numbers, line numbers, spacing, case."""
    for varying, name in _VARYING:
        message = varying.sub(name, message)
    return canonical_text(message).casefold()


def fingerprint_of(finding: Finding, grader: str) -> str:
    """The key of a failure: 32 hex digits after `fp:`. A fingerprint that the grader gives decides alone."""
    if finding.fingerprint:
        return given_fingerprint(finding.fingerprint)
    file = re.split(r"[/\\]", _LINE.sub("", finding.where))[-1]
    return _key("found", grader, finding.kind, scrubbed(finding.message), scrubbed(file))


def given_fingerprint(fingerprint: str) -> str:
    """The key of a failure that a grader has a name for, or that key itself."""
    if KEY_FORM.fullmatch(fingerprint):
        return fingerprint
    return _key("given", fingerprint if _OPAQUE.fullmatch(fingerprint) else scrubbed(fingerprint))


def _key(*parts: str) -> str:
    digest = sha256(_TAG)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return f"fp:{digest.hexdigest()[:32]}"
