"""What a memory is: records, and the pure rules by which they change. Also the public door of the product.

The names below come from where they live when they are first asked for, so that the rules import nothing of the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..client import AsyncReplicatedMemory
    from ..client.sharing import graduate, import_belief, lattice_recall
    from ..client.watching import BEGINNING, Change
    from ..embedded import AntiEntropy, LocalMemory, ReplicatedMemory
    from ..security.principal import Principal
    from ..stores import known_backends, load_backend
    from ..trust.budget import BudgetedRecall, recall_budgeted
    from ..trust.chat import OpenAIChat
    from ..trust.consolidation import consolidate_failures, induce_hierarchy, librarian_pass
    from ..trust.conversation import ConversationReport, remember_conversation
    from ..trust.design import DesignRule
    from ..trust.facts import Extraction, extract_facts
    from ..trust.failures import FailureLedger, Regression, regression_report
    from ..trust.promotion import EvalCase, HeldOutCorpus, Promotion, PromotionGate
    from ..trust.revision import propagate_revision, revise_with_counterexample
    from .changes import Cursor
    from .keys import is_reserved_key, make_id, make_key
    from .lattice import ScopeLattice
    from .reputation import AuthorTrust
    from .reviewing import BarredValue, Contender, KnownPrincipal, KnownToken, ReviewItem
    from .view import HistoryItem, MemoryKind, MemoryRecord, MemoryView, Trust, correction_chain

__all__ = [
    "BEGINNING",
    "AntiEntropy",
    "AsyncReplicatedMemory",
    "AuthorTrust",
    "BarredValue",
    "BudgetedRecall",
    "Change",
    "Contender",
    "ConversationReport",
    "Cursor",
    "DesignRule",
    "EvalCase",
    "Extraction",
    "FailureLedger",
    "HeldOutCorpus",
    "HistoryItem",
    "KnownPrincipal",
    "KnownToken",
    "LocalMemory",
    "MemoryKind",
    "MemoryRecord",
    "MemoryView",
    "OpenAIChat",
    "Principal",
    "Promotion",
    "PromotionGate",
    "Regression",
    "ReplicatedMemory",
    "ReviewItem",
    "ScopeLattice",
    "Trust",
    "consolidate_failures",
    "correction_chain",
    "extract_facts",
    "graduate",
    "import_belief",
    "induce_hierarchy",
    "is_reserved_key",
    "known_backends",
    "lattice_recall",
    "librarian_pass",
    "load_backend",
    "make_id",
    "make_key",
    "propagate_revision",
    "recall_budgeted",
    "regression_report",
    "remember_conversation",
    "revise_with_counterexample",
]  # fmt: skip

_HOMES = dict.fromkeys(__all__, "veridical.memory.view") | {
    "BEGINNING": "veridical.client.watching",
    "AsyncReplicatedMemory": "veridical.client",
    "AuthorTrust": "veridical.memory.reputation",
    "BarredValue": "veridical.memory.reviewing",
    "BudgetedRecall": "veridical.trust.budget",
    "Change": "veridical.client.watching",
    "Contender": "veridical.memory.reviewing",
    "ConversationReport": "veridical.trust.conversation",
    "Cursor": "veridical.memory.changes",
    "DesignRule": "veridical.trust.design",
    "EvalCase": "veridical.trust.promotion",
    "Extraction": "veridical.trust.facts",
    "FailureLedger": "veridical.trust.failures",
    "HeldOutCorpus": "veridical.trust.promotion",
    "KnownPrincipal": "veridical.memory.reviewing",
    "KnownToken": "veridical.memory.reviewing",
    "AntiEntropy": "veridical.embedded",
    "LocalMemory": "veridical.embedded",
    "OpenAIChat": "veridical.trust.chat",
    "Principal": "veridical.security.principal",
    "Promotion": "veridical.trust.promotion",
    "PromotionGate": "veridical.trust.promotion",
    "Regression": "veridical.trust.failures",
    "ReplicatedMemory": "veridical.embedded",
    "ReviewItem": "veridical.memory.reviewing",
    "ScopeLattice": "veridical.memory.lattice",
    "consolidate_failures": "veridical.trust.consolidation",
    "extract_facts": "veridical.trust.facts",
    "graduate": "veridical.client.sharing",
    "import_belief": "veridical.client.sharing",
    "induce_hierarchy": "veridical.trust.consolidation",
    "is_reserved_key": "veridical.memory.keys",
    "known_backends": "veridical.stores",
    "lattice_recall": "veridical.client.sharing",
    "librarian_pass": "veridical.trust.consolidation",
    "load_backend": "veridical.stores",
    "propagate_revision": "veridical.trust.revision",
    "recall_budgeted": "veridical.trust.budget",
    "regression_report": "veridical.trust.failures",
    "remember_conversation": "veridical.trust.conversation",
    "revise_with_counterexample": "veridical.trust.revision",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veridical.memory' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
