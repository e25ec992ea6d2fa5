"""Every bound of the memory rules, by name. What exceeds one is refused and told which; nothing is ever shortened."""

from __future__ import annotations

from typing import Final

TEXT_CHARACTERS_LIMIT: Final = 20_000  # a few pages: more is a document, and belongs into an episode
EPISODE_CHARACTERS_LIMIT: Final = 200_000  # a chapter: a longer document comes in several episodes, one after the other
NAME_CHARACTERS_LIMIT: Final = 512  # subject, predicate, source, one item of provenance, evidence
SCOPE_CHARACTERS_LIMIT: Final = 256
REASON_CHARACTERS_LIMIT: Final = 2_000
JSON_BYTES_LIMIT: Final = 64 << 10  # metadata and detail, each
JSON_DEPTH_LIMIT: Final = 16
BODY_BYTES_LIMIT: Final = 1 << 20

PROVENANCE_LIMIT: Final = 32  # items that a record carries; further ones are in its history
DERIVED_FROM_LIMIT: Final = 64  # records that one statement rests on
WITHDRAWN_LIMIT: Final = 1_000  # records that may fall with one: each is a row of the same event
VECTOR_BYTES_LIMIT: Final = 8_192  # components of a vector that a service made, one byte each
MERGED_LIMIT: Final = 64  # sentences that one takes the place of
SOURCES_LIMIT: Final = 64  # sources, and opinions, that a value counts; at the limit it is as supported as it can be
CONTENDERS_LIMIT: Final = 16  # values that wait beside a verified one for a reviewer
BATCH_IDS_LIMIT: Final = 1_000  # ids of one prune or reinforce command
MULTI_VALUED_LIMIT: Final = 256  # declarations of multi-valued predicates
LATTICE_LIMIT: Final = 4_096  # scopes that have a parent
LATTICE_DEPTH_LIMIT: Final = 16  # ancestors of one scope: a recall looks into each
RECEIPT_RUNS_LIMIT: Final = 64  # run receipts that one gate receipt rests on: each costs a signature check
TOKENS_LIMIT: Final = 10_000  # bearer tokens that were not revoked: more are not looked after
GRANTS_LIMIT: Final = 64  # scope patterns in which one principal holds rights: every command asks them

TIME_US_LOWEST: Final = -62_135_596_800_000_000  # from the year 1 to the end of the year 9999: what a datetime can hold
TIME_US_LIMIT: Final = 253_402_300_799_999_999
DURATION_US_LIMIT: Final = 100 * 365 * 86_400_000_000
