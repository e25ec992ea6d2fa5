"""What members say in a program that is not ours: to `logging`, where nobody hears it who does not ask."""

from __future__ import annotations

import logging
from typing import Final

import structlog

LOGGER: Final = "veridical"


def join_logging() -> None:
    """Unless the program has configured structlog itself, hand events to `logging`, silent until it is configured."""
    logger = logging.getLogger(LOGGER)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )
