"""What the holder of a bearer token says: a claim in nobody's name, bounded by what its principal may write.

A token shows that its holder may write, not who speaks: it can be copied, and nothing of what is sent under it is
signed. So a claim is a candidate without an author. It counts as one voice, whatever sources it cites and however many
tokens its principal has; it confirms nothing, and it takes back, judges, vouches and administers nothing.
"""

from __future__ import annotations

from . import commands, rules
from .commands import Command, WriteBody
from .context import Context
from .errors import Invalid, Refused
from .events import Event, refused
from .interference import decide_write
from .principals import HeldRights, enrolled
from .sources import claimed_source
from .state import State
from .tokens import bearer


def decide_claim(state: State, command: Command, digest: bytes, now_us: int, context: Context) -> Event:
    """The one event of a command that came under the token with that digest, in a guarded store."""
    try:
        principal = enrolled(state, bearer(state, digest, now_us))
        body = commands.decode_body(command.kind, command.content)
    except Refused as refusal:
        return refused(refusal.rule)
    except Invalid:
        return refused(rules.MALFORMED)
    if principal is None or type(body) is not WriteBody or body.vouched:
        return refused(rules.TOKEN_CLAIMS_ONLY)
    held = context._replace(rights=HeldRights(principal))
    voice = claimed_source(principal.identity, context.digests)
    return decide_write(state, body, None, now_us, held, voice=voice)
