"""Verdicts, reports and receipts as callers see them: frozen models; what is signed is said in `memory.receipts`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Literal, cast

import msgpack
from pydantic import BaseModel, ConfigDict, Field

from ..memory.receipts import ED25519, FORM, Gate, Run, gate_json, gate_of, run_json, run_of

_REPORT_TAG: Final = b"veridical/report/1\0"
_pack: Final = cast(Callable[[Any], bytes], msgpack.packb)


class Verdict(StrEnum):
    """What a grader came to."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Finding(BaseModel):
    """One thing that a grader found. A finding that gates makes the verdict; `fingerprint` tells it from others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    message: str
    fingerprint: str = ""
    gating: bool = True
    where: str = ""


class RunReceipt(BaseModel):
    """A runner's signature on the digest of a report and its verdict. Digests, keys and signatures are hex."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal[1] = FORM
    alg: str = ED25519
    grader: str
    verdict: Verdict
    report: str
    issued_at_us: int
    key_id: str
    signature: str

    @staticmethod
    def of(run: Run) -> RunReceipt:
        """The model of a run receipt."""
        return RunReceipt.model_validate(run_json(run))

    def run(self) -> Run:
        """The receipt as it is signed. Raises `Invalid` for a malformed one."""
        return run_of(self.model_dump(mode="json"))


class Report(BaseModel):
    """What a grader reports of one run, and the receipt that a runner has signed over it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grader: str
    verdict: Verdict
    summary: str = ""
    findings: tuple[Finding, ...] = ()
    receipt: RunReceipt | None = None

    def digest(self) -> bytes:
        """What a receipt commits to: everything in the report but the receipt, 32 bytes."""
        findings = [list(finding.model_dump().values()) for finding in self.findings]
        return sha256(_REPORT_TAG + _pack([self.grader, self.verdict.value, self.summary, findings])).digest()


class GateReceipt(BaseModel):
    """A gate's signature on its verdict about one claim. `commitment` is `fact_commitment`; `scope` None: any one.

    `model_dump()` is what travels as evidence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal[1] = FORM
    alg: str = ED25519
    verdict: Verdict
    commitment: str
    scope: str | None = None
    issued_at_us: int
    expires_at_us: int
    runs: tuple[RunReceipt, ...] = Field(min_length=1)
    key_id: str
    signature: str

    @staticmethod
    def of(gate: Gate) -> GateReceipt:
        """The model of a gate receipt."""
        return GateReceipt.model_validate(gate_json(gate))

    def gate(self) -> Gate:
        """The receipt as it is signed. Raises `Invalid` for a malformed one."""
        return gate_of(self.model_dump(mode="json"))
