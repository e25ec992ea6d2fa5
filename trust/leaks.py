"""Secrets in what people and models write: keys, tokens and passwords are no memories, and are not kept as such."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MASK: Final = "[secret]"

_FORMS: Final = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*)",
    r"\bsk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic
    r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # AWS
    r"\bAIza[A-Za-z0-9_-]{30,}",  # Google
    r"\b(?:hf|npm)_[A-Za-z0-9]{20,}",
    r"\bpypi-[A-Za-z0-9_-]{30,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # a JSON web token
    r"\b[Bb]earer\s+[A-Za-z0-9._~+/=-]{16,}",
    r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",  # user:password@host
    r"(?i:\b(?:pass(?:word|wd|phrase)|secret|api[ _-]?key|access[ _-]?key|private[ _-]?key|auth[ _-]?token|token|pin)\b"
    r"(?:\s+(?:is|was)\s+|\s*[:=]\s*))[\"'`]?(?=\S*[\d\W_])\S{6,}",
)
_SECRET: Final = re.compile("|".join(_FORMS), re.DOTALL)
_NAMES_ONE: Final = re.compile(
    r"(?i)\b(?:password|passwd|passphrase|api[ _-]?key|secret[ _-]?key|private[ _-]?key)s?\b"
)
_LOOKS_DRAWN: Final = re.compile(r"(?=\S*[A-Za-z])(?=\S*\d)[A-Za-z0-9+/=_.!@#$%^&*-]{8,}")


class Masked(NamedTuple):
    """A text with its secrets masked, and how many those were."""

    text: str
    secrets: int


def masked(text: str) -> Masked:
    """The text with `[secret]` in the place of whatever looks like one."""
    return Masked(*_SECRET.subn(MASK, text))


def holds_secret(*fields: str) -> bool:
    """Whether fields that belong together give a secret away: one by its form, or by what another calls it."""
    if any(map(_SECRET.search, fields)):
        return True
    *names, value = fields
    return any(map(_NAMES_ONE.search, names)) and _LOOKS_DRAWN.search(value) is not None
