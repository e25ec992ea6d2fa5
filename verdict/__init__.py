"""What graders found: reports, and signed receipts that anybody can check without trusting whoever shows them."""

from __future__ import annotations

from ..memory.receipts import fact_commitment
from .attestation import attest_fact, signed_report, verify_fact_attestation
from .models import Finding, GateReceipt, Report, RunReceipt, Verdict
from .runner import Runner, default_runner

__all__ = [
    "Finding", "GateReceipt", "Report", "RunReceipt", "Runner", "Verdict", "attest_fact", "default_runner",
    "fact_commitment", "signed_report", "verify_fact_attestation",
]  # fmt: skip
