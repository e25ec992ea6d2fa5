"""The one process that acts: it drives the pure cores with gRPC, SQLite, clocks and timers, and stops when it must."""

from ..projection import sqlite as _sqlite  # it configures SQLite, which works only before anything else imports it

__all__: list[str] = []
del _sqlite
