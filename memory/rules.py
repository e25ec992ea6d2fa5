"""The rules that can stand against a command, by name, and what each says to the caller."""

from __future__ import annotations

from typing import Final

REJECTED_VALUE: Final = "rejected_value"
FORGOTTEN_SOURCE: Final = "forgotten_source"
RECALLED_TEXT: Final = "recalled_text"
RESERVED_KEY: Final = "reserved_key"
OTHER_KIND: Final = "other_kind"
CONTENDERS_FULL: Final = "contenders_full"
NOT_GRANTED: Final = "not_granted"
NOT_YOURS: Final = "not_yours"
UNKNOWN_RECORD: Final = "unknown_record"
STANDING_REJECTION: Final = "standing_rejection"
FUTURE_TIME: Final = "future_time"
PAST_EPOCH: Final = "past_epoch"
NOTES_FULL: Final = "notes_full"
SETTINGS_FULL: Final = "settings_full"
MALFORMED: Final = "malformed"
ID_TOO_OLD: Final = "id_too_old"
ID_TOO_FAR_AHEAD: Final = "id_too_far_ahead"
ID_NOT_A_TIME: Final = "id_not_a_time"

REASONS: Final = {
    REJECTED_VALUE: "this value was rejected for this key; only a reviewer can revoke that",
    FORGOTTEN_SOURCE: "this value of this source was forgotten for this key; an independent source may assert it",
    RECALLED_TEXT: "text that came out of this memory is no evidence for anything new",
    RESERVED_KEY: "this predicate or scope is kept for the product's own records",
    OTHER_KIND: "the key is held by a record of another kind",
    CONTENDERS_FULL: "too many values wait beside the verified one; a reviewer has to decide first",
    NOT_GRANTED: "the author does not hold the right that this needs",
    NOT_YOURS: "the record is verified and the author is none of the principals that support it",
    UNKNOWN_RECORD: "no record of that id is held",
    STANDING_REJECTION: "the record is rejected; a rejection is not promoted away, corroborated or amended",
    FUTURE_TIME: "a time more than a minute ahead of the log needs the admin right",
    PAST_EPOCH: "the command was made by a leader of another epoch",
    NOTES_FULL: "metadata or detail would grow over its limit",
    SETTINGS_FULL: "too many declarations",
    MALFORMED: "the body of the command is not what its kind asks for",
    ID_TOO_OLD: "the command id is older than the window that remembers ids",
    ID_TOO_FAR_AHEAD: "the command id is more than five minutes ahead of the log",
    ID_NOT_A_TIME: "the command id is not a UUID of version 7",
}
