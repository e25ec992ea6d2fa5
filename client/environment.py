"""What the environment says of a memory elsewhere: where its nodes are, who signs, how fresh reads are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from ..memory.errors import Invalid

if TYPE_CHECKING:
    from ..security.principal import Principal

ENDPOINTS_VARIABLE: Final = "VERIDICAL_ENDPOINTS"
PRINCIPAL_VARIABLE: Final = "VERIDICAL_PRINCIPAL_SEED"
READ_VARIABLE: Final = "VERIDICAL_READ_CONSISTENCY"
TIMEOUT_VARIABLE: Final = "VERIDICAL_TIMEOUT_S"
READ_DEFAULT: Final = "session"


def named_endpoints() -> list[str]:
    """The nodes in `VERIDICAL_ENDPOINTS`, parted by commas or spaces; none where it is not set."""
    return os.environ.get(ENDPOINTS_VARIABLE, "").replace(",", " ").split()


def principal() -> Principal | None:
    """Who signs what this process says: the seed in `VERIDICAL_PRINCIPAL_SEED`, or nobody. Raises `Invalid`."""
    seed = os.environ.get(PRINCIPAL_VARIABLE, "").strip()
    if not seed:
        return None
    from ..security.principal import Principal

    try:
        return Principal.from_hex(seed)
    except ValueError as error:
        raise Invalid(PRINCIPAL_VARIABLE, str(error)) from error


def connection_options() -> dict[str, Any]:
    """The options of a client that asks those nodes. Raises `Invalid`."""
    options: dict[str, Any] = {"read_consistency": os.environ.get(READ_VARIABLE) or READ_DEFAULT}
    timeout = os.environ.get(TIMEOUT_VARIABLE)
    if timeout:
        options["timeout_s"] = _seconds(timeout)
    return options | {"principal": principal()}


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(TIMEOUT_VARIABLE, f"{text!r} is not a number of seconds") from None
