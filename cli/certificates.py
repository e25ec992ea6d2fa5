"""`certs`: a small authority for a cluster that has none, and the certificates of its nodes and clients."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import screen
from .failures import NEGATIVE
from .options import JsonOption

if TYPE_CHECKING:
    from ..security.certificates import Pair

AUTHORITY_FILE: Final = "ca.pem"
"""Whom to trust: the authority, and while it is replaced the one before it."""
ISSUER_FILE: Final = "ca-issuer.pem"
ISSUER_KEY_FILE: Final = "ca-key.pem"
DAYS_LIMIT: Final = 36_500
EXPIRES_SOON_DAYS: Final = 14
PRIVATE_MODE: Final = 0o600

FolderOption = Annotated[
    Path, typer.Option("--authority", metavar="DIR", help="Where `certs init` put the authority.", show_default=False)
]
DaysOption = Annotated[int, typer.Option("--days", min=1, max=DAYS_LIMIT, help="How long it is valid.")]


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.", show_default=False)],
    cluster: Annotated[str, typer.Option("--cluster", help="Its name, for people.")] = "veridical",
    days: DaysOption = 3650,
    as_json: JsonOption = False,
) -> None:
    """Make an authority. Its key signs every node and client: keep the folder off the nodes, and safe."""
    from ..memory.errors import Invalid
    from ..security.certificates import new_authority

    if (folder / ISSUER_KEY_FILE).exists():
        raise Invalid("DIR", f"{folder} holds an authority already; `veridical certs rotate` replaces it")
    made = new_authority(cluster, _now(), days)
    _keep(folder / ISSUER_KEY_FILE, made.key, private=True)
    _keep(folder / ISSUER_FILE, made.certificate)
    _keep(folder / AUTHORITY_FILE, made.certificate)
    _tell([folder / AUTHORITY_FILE, folder / ISSUER_KEY_FILE], made.certificate, as_json)


def issue(
    name: Annotated[str, typer.Argument(help="The node's name in its cluster, or the client's.", show_default=False)],
    authority: FolderOption,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to put it.", show_default=False)],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="Where clients reach the node, as often as there are.", show_default=False),
    ] = None,
    client: Annotated[bool, typer.Option("--client", help="For a client: it dials nodes, and is none.")] = False,
    days: DaysOption = 397,
    as_json: JsonOption = False,
) -> None:
    """Issue a certificate: NAME.pem, NAME-key.pem, and ca.pem beside them. An earlier one of that name is replaced."""
    from ..memory.errors import Invalid
    from ..security.certificates import CLIENT, NODE, issue

    _check_names(name, host or (), client)
    try:
        kind = CLIENT if client else NODE
        made = issue(_authority(authority), kind, name, host or (), _now(), days)
    except ValueError as error:
        raise Invalid("authority", f"{authority}: {error}") from error
    _keep(out / f"{name}-key.pem", made.key, private=True)
    _keep(out / f"{name}.pem", made.certificate)
    _keep(out / AUTHORITY_FILE, _read(authority / AUTHORITY_FILE))
    _tell([out / f"{name}.pem", out / f"{name}-key.pem", out / AUTHORITY_FILE], made.certificate, as_json)


def rotate(
    authority: FolderOption,
    finish: Annotated[bool, typer.Option("--finish", help="Trust only the newest authority from now on.")] = False,
    cluster: Annotated[str, typer.Option("--cluster", help="Its name, for people.")] = "veridical",
    days: DaysOption = 3650,
    as_json: JsonOption = False,
) -> None:
    """Replace the authority in steps, without a pause.

    1. `certs rotate`: a new authority; ca.pem now trusts both. Copy ca.pem to every node and client.
    2. `certs issue` for each of them anew, and copy those. 3. `certs rotate --finish`, and copy ca.pem again.
    Nodes read the files again by themselves.
    """
    from ..security.certificates import joined, new_authority

    issuer = _read(authority / ISSUER_FILE)
    if finish:
        _keep(authority / AUTHORITY_FILE, issuer)
        _tell([authority / AUTHORITY_FILE], issuer, as_json)
        return
    made = new_authority(cluster, _now(), days)
    _keep(authority / AUTHORITY_FILE, joined(made.certificate, issuer))
    _keep(authority / ISSUER_KEY_FILE, made.key, private=True)
    _keep(authority / ISSUER_FILE, made.certificate)
    _tell([authority / AUTHORITY_FILE, authority / ISSUER_KEY_FILE], made.certificate, as_json)


def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE …", help="Certificates (PEM).", show_default=False)],
    within: Annotated[
        int, typer.Option("--within", metavar="DAYS", min=0, help="Exit with 1 when one expires so soon.")
    ] = EXPIRES_SOON_DAYS,
    as_json: JsonOption = False,
) -> None:
    """Say whose certificates these are, for which hosts, how long, and by which fingerprint they are pinned."""
    from ..memory.errors import Invalid
    from ..security.certificates import described

    now, rows, expiring = _now(), list[dict[str, Any]](), False
    for file in files:
        try:
            says = described(_read(file))
        except ValueError as error:
            raise Invalid("FILE", f"{file} holds no certificate") from error
        days = (says.not_after - now).days
        expiring |= days < within
        rows.append({
            "file": str(file), "name": says.name, "kind": says.kind or "foreign", "hosts": list(says.hosts),
            "not_after": says.not_after.isoformat(), "days": days, "sha256": says.sha256,
        })  # fmt: skip
    if as_json:
        screen.say_json(rows)
    else:
        for row in rows:
            hosts = ", ".join(row["hosts"]) or "no hosts"
            screen.say(f"{row['file']}: {row['kind']} {row['name']} ({hosts}), {row['days']} days, {row['sha256']}")
    if expiring:
        screen.complain(f"veridical: expires within {within} days; see `veridical certs issue --help`")
        raise typer.Exit(NEGATIVE)


def _now() -> datetime:
    from ..node.system import SystemClock

    return datetime.fromtimestamp(SystemClock().wall_us() / 1_000_000, UTC)


def _check_names(name: str, hosts: Sequence[str], client: bool) -> None:
    from ..memory.errors import Invalid

    for part in (name, *hosts):
        if not part or len(part) > 253 or not all(each.isalnum() or each in "-._:" for each in part):
            raise Invalid("name", f"{part!r} is no name that a certificate can hold: letters, digits, - and .")
    if "/" in name or name.startswith("."):
        raise Invalid("name", f"{name!r} cannot be a file's name")
    if client and hosts:
        raise Invalid("host", "a client is reached nowhere; leave --host out")


def _authority(folder: Path) -> Pair:
    from ..security.certificates import Pair

    return Pair(_read(folder / ISSUER_FILE), _read(folder / ISSUER_KEY_FILE))


def _read(path: Path) -> bytes:
    from ..memory.errors import Invalid

    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid("file", f"{path}: {error.strerror}; `veridical certs init` makes an authority") from error


def _keep(path: Path, pem: bytes, *, private: bool = False) -> None:
    """Put a file in place at once: whoever reads it meanwhile reads the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE if private else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _tell(files: Sequence[Path], certificate: bytes, as_json: bool) -> None:
    from ..security.certificates import described

    says = described(certificate)
    if as_json:
        screen.say_json({
            "files": list(map(str, files)), "name": says.name, "kind": says.kind, "hosts": list(says.hosts),
            "not_after": says.not_after.isoformat(), "sha256": says.sha256,
        })  # fmt: skip
        return
    screen.say(f"{says.kind} {says.name} until {says.not_after:%Y-%m-%d}: {', '.join(map(str, files))}")
