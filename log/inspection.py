"""Looks at the files of a log before anything may write to them, and so before SQLite could tidy damage away."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from .database import connect_reader, placed_error
from .errors import LogDamaged, LogForeign
from .journal import Journal, dropped_frame, read_journal, recovered_frames
from .reader import Reader
from .rows import LATER_TABLES, SCHEMA

APPLICATION_ID = 0x5644_4C47
"""Marks the file as a log of Veridical ("VDLG") in SQLite's header."""

FORMAT = 2
"""The version of tables and rows, in SQLite's `user_version`. Earlier ones are read, and carried on by a writer."""


def inspect(path: Path, acknowledged: int, *, alone: bool) -> bool:
    """Whether there is a log at `path` (False: an empty place to make one), `acknowledged` being its mark.

    `alone` says that no writer can be at work, so that the journal may be judged too. Raises `LogDamaged` or
    `LogForeign`, with every file as it was.
    """
    journal_path = path.with_name(path.name + "-wal")
    if not path.exists() or path.stat().st_size == 0:
        if acknowledged or (journal_path.exists() and journal_path.stat().st_size):
            raise LogDamaged(path.name, None, f"the file is missing or empty after {acknowledged} acknowledged writes")
        return False
    journal = read_journal(path) if alone else None
    with closing(connect_reader(path)) as connection:
        try:
            return _inspect_open(connection, path, acknowledged, journal)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB and not acknowledged:
                raise LogForeign(f"{path} is not a log") from error
            raise placed_error(error, connection, path.name) from error
        except UnicodeDecodeError as error:  # SQLite quotes the names of tables in its errors, and they may have rotted
            raise LogDamaged(path.name, None, "its tables are not those of a log", page=1) from error


def schema_of(version: int) -> dict[str, str]:
    """The tables of a log of that format."""
    later = {name for since, names in LATER_TABLES.items() if since > version for name in names}
    return {name: sql for name, sql in SCHEMA.items() if name not in later}


def _version(connection: sqlite3.Connection) -> int:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return version


def _inspect_open(connection: sqlite3.Connection, path: Path, acknowledged: int, journal: Journal | None) -> bool:
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_schema").fetchall())
    if journal is not None:
        _check_journal(journal, path)
    if not tables and not acknowledged:
        return False
    _check_header(connection, path, acknowledged, tables)
    if tables not in (SCHEMA, schema_of(_version(connection))):
        raise LogDamaged(path.name, None, "its tables are not those of a log", page=1)
    state = Reader(connection, path.name).state()
    if state.writes < acknowledged:
        missing = f"{acknowledged - state.writes} acknowledged writes are missing after write {state.writes}"
        raise LogDamaged(path.name + "-wal", state.last.index + 1, missing)
    return True


def _check_journal(journal: Journal, path: Path) -> None:
    frame = dropped_frame(journal, recovered_frames(path) if journal.frames else 0)
    if frame is not None:
        what = f"acknowledged writes are unreadable from frame {frame} of the journal on"
        raise LogDamaged(path.name + "-wal", None, what, page=frame)


def _check_header(connection: sqlite3.Connection, path: Path, acknowledged: int, tables: dict[str, str]) -> None:
    """A version that was never written, with the tables of this one, is rot; else it is that of later software."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    version = _version(connection)
    if application == APPLICATION_ID and 1 <= version <= FORMAT:
        return
    if acknowledged and (application != APPLICATION_ID or version < 1 or tables == SCHEMA):
        raise LogDamaged(path.name, None, f"its header is not that of a log of format {FORMAT} or before", page=1)
    if application != APPLICATION_ID:
        raise LogForeign(f"{path} is a database of something else")
    raise LogForeign(f"{path} has format {version}, this version of the software reads formats up to {FORMAT}")
