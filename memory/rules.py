"""The rules that can stand against a command, by name, and what each says to the caller."""

from __future__ import annotations

from typing import Final

REJECTED_VALUE: Final = "rejected_value"
FORGOTTEN_SOURCE: Final = "forgotten_source"
RECALLED_TEXT: Final = "recalled_text"
SOURCE_GONE: Final = "source_gone"
CIRCULAR_SOURCE: Final = "circular_source"
WITHDRAWN_FULL: Final = "withdrawn_full"
VERIFIED_FALLS: Final = "verified_falls"
NO_PREDECESSOR: Final = "no_predecessor"
IS_SOURCE: Final = "is_source"
CORRECTED_VALUE: Final = "corrected_value"
CORRECT_BACK: Final = "correct_back"
NOT_ALIKE: Final = "not_alike"
NOT_STATED: Final = "not_stated"
RESERVED_KEY: Final = "reserved_key"
OTHER_KIND: Final = "other_kind"
CONTENDERS_FULL: Final = "contenders_full"
NOT_GRANTED: Final = "not_granted"
NOT_YOURS: Final = "not_yours"
UNKNOWN_RECORD: Final = "unknown_record"
CONTENT_ERASED: Final = "content_erased"
STILL_HELD: Final = "still_held"
STANDING_REJECTION: Final = "standing_rejection"
FUTURE_TIME: Final = "future_time"
PAST_EPOCH: Final = "past_epoch"
NOT_CURRENT: Final = "not_current"
WITH_OTHERS: Final = "with_others"
NOTES_FULL: Final = "notes_full"
SETTINGS_FULL: Final = "settings_full"
STRANGER: Final = "stranger"
KNOWN_KEY: Final = "known_key"
FIRST_ADMINISTRATOR: Final = "first_administrator"
LAST_ADMINISTRATOR: Final = "last_administrator"
BROADER_GRANT: Final = "broader_grant"
GRANTS_FULL: Final = "grants_full"
WRONG_PROOF: Final = "wrong_proof"
TOKEN_UNKNOWN: Final = "token_unknown"
TOKEN_REVOKED: Final = "token_revoked"
TOKEN_EXPIRED: Final = "token_expired"
TOKEN_ORPHANED: Final = "token_orphaned"
TOKEN_KNOWN: Final = "token_known"
TOKENS_FULL: Final = "tokens_full"
TOKEN_CLAIMS_ONLY: Final = "token_claims_only"
UNKNOWN_VALUE: Final = "unknown_value"
VALUE_IS_KEY: Final = "value_is_key"
OVERTAKEN: Final = "overtaken"
RECEIPT_STRANGER: Final = "receipt_stranger"
RECEIPT_FORGED: Final = "receipt_forged"
RECEIPT_EXPIRED: Final = "receipt_expired"
RECEIPT_EMPTY: Final = "receipt_empty"
RECEIPT_OTHER_CLAIM: Final = "receipt_other_claim"
RECEIPT_OTHER_SCOPE: Final = "receipt_other_scope"
RECEIPT_SPENT: Final = "receipt_spent"
LATTICE_CYCLE: Final = "lattice_cycle"
MALFORMED: Final = "malformed"
ID_TOO_OLD: Final = "id_too_old"
ID_TOO_FAR_AHEAD: Final = "id_too_far_ahead"
ID_NOT_A_TIME: Final = "id_not_a_time"

UNLOGGED: Final = frozenset(
    {NOT_GRANTED, TOKEN_UNKNOWN, TOKEN_REVOKED, TOKEN_EXPIRED, TOKEN_ORPHANED, TOKEN_CLAIMS_ONLY}
)
"""Refusals that leave nothing in history: what was not granted is for the operator's own log (PROTOCOL § 6)."""

REASONS: Final = {
    REJECTED_VALUE: "this value was rejected for this key; only a reviewer can revoke that",
    FORGOTTEN_SOURCE: "this value of this source was forgotten for this key; an independent source may assert it",
    RECALLED_TEXT: "text that came out of this memory is no evidence for anything new",
    SOURCE_GONE: "a record that this rests on is not held, has expired, was rejected, or is not the author's to read",
    CIRCULAR_SOURCE: "all that this was derived from rests on the record itself",
    WITHDRAWN_FULL: "too many records rest on this one; forget some of those first",
    VERIFIED_FALLS: "a verified record rests on this one alone; one of its supporters or a reviewer has to forget it",
    NO_PREDECESSOR: "the episode that this one is said to follow is not held in the same scope",
    IS_SOURCE: "an episode is what was said, neither believed nor doubted; judge what was taken from it, or forget it",
    CORRECTED_VALUE: "this source's statement was corrected to another one; an independent source may assert it",
    CORRECT_BACK: "the event put one record in the place of another: correct that one back instead",
    NOT_ALIKE: "only records of one kind, subject, predicate and scope can be replaced by one",
    NOT_STATED: "the author, or that source, has not stated this value, or took it back already",
    RESERVED_KEY: "this predicate or scope is kept for the product's own records",
    OTHER_KIND: "the key is held by a record of another kind",
    CONTENDERS_FULL: "too many values wait beside the verified one; a reviewer has to decide first",
    NOT_GRANTED: "the author does not hold the right that this needs there, whether or not such a record is held",
    NOT_YOURS: "the record is verified and the author is none of the principals that support it",
    UNKNOWN_RECORD: "no record of that id is held",
    STILL_HELD: "a correction joined this record with another one, and both are held; forget one of them first",
    CONTENT_ERASED: "what was held there was erased; nothing brings it back",
    STANDING_REJECTION: "the record is rejected; a rejection is not promoted away, corroborated or amended",
    FUTURE_TIME: "a time more than a minute ahead of the log needs the admin right",
    PAST_EPOCH: "the command was made by a leader of another epoch",
    NOT_CURRENT: "another value is held by now, or the record is rejected",
    WITH_OTHERS: "it was sent together with others that came too late",
    NOTES_FULL: "metadata or detail would grow over its limit",
    SETTINGS_FULL: "too many declarations",
    STRANGER: "no principal of that key is enrolled",
    KNOWN_KEY: "the key is or was that of a principal already",
    FIRST_ADMINISTRATOR: "the first principal must hold the admin right in every scope, or nobody could enroll another",
    LAST_ADMINISTRATOR: "nobody would be left who holds the admin right in every scope",
    BROADER_GRANT: "a broader pattern gives the right in these scopes as well; take it there",
    GRANTS_FULL: "the principal would hold rights in too many patterns",
    WRONG_PROOF: "the new key did not sign the rotation",
    TOKEN_UNKNOWN: "no such token was issued here",
    TOKEN_REVOKED: "the token was revoked; ask whoever issued it for another one",
    TOKEN_EXPIRED: "the token's time is over; ask whoever issued it for another one",
    TOKEN_ORPHANED: "the principal that the token was issued for was revoked, or goes on with another key",
    TOKEN_KNOWN: "a token of that secret was issued before",
    TOKEN_CLAIMS_ONLY: "under a token one may state things and nothing else; sign with a principal's key for that",
    TOKENS_FULL: "too many tokens are in force; revoke some of those first",
    UNKNOWN_VALUE: "no value of that digest is held or contends under that key",
    VALUE_IS_KEY: "the value is part of this record's key: reject it, and write the other one",
    OVERTAKEN: "this is not the last event about the record; undo the later ones first",
    RECEIPT_STRANGER: "the receipt is signed by no key that may attest here",
    RECEIPT_FORGED: "the receipt, or a run that it rests on, is not signed by the key that it names",
    RECEIPT_EXPIRED: "the receipt has expired, or was issued in the future",
    RECEIPT_EMPTY: "the receipt rests on no run that came to its verdict, or passes what a run failed",
    RECEIPT_OTHER_CLAIM: "the receipt is about another subject, predicate or text",
    RECEIPT_OTHER_SCOPE: "the receipt is about another scope",
    RECEIPT_SPENT: "the receipt was used before",
    LATTICE_CYCLE: "a scope would lie within itself, or within too many others",
    MALFORMED: "the body of the command is not what its kind asks for",
    ID_TOO_OLD: "the command id is older than the window that remembers ids",
    ID_TOO_FAR_AHEAD: "the command id is more than five minutes ahead of the log",
    ID_NOT_A_TIME: "the command id is not a UUID of version 7",
}
