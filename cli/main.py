"""`veridical …`: all verbs, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from . import (
    antientropy,
    audit,
    backups,
    bearers,
    certificates,
    cluster,
    doctor,
    drilling,
    facts,
    importing,
    lattices,
    members,
    memberships,
    principals,
    reindexing,
    reviewing,
    simulation,
    status,
    watching,
)
from .failures import advice, exit_code, sentence
from .screen import complain

PASSED_ON: Final[dict[str, Any]] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

EXIT_CODES: Final = (
    "Exit codes: 0 done, 1 no such record or not all of it, 2 wrong command line, 10 invalid, 11 too large, "
    "12 refused, 13 conflict, 20 retry, 21 not the leader, 22 outcome unknown, 23 unavailable, 24 log begins later, "
    "25 another history, 30 damaged, "
    "31 log or projection unusable, 32 node cannot start or key unusable, 40 file, 70 bug. "
    "`status` answers with its own four."
)


class Verbs(TyperGroup):
    """The verbs. An error that a user can act on becomes one line on standard error; any other keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            code = None if isinstance(error, BrokenPipeError) else exit_code(error)
            if code is None:
                raise
            complain(f"veridical: {sentence(error)}")
            if hint := advice(error):
                complain(hint)
            raise typer.Exit(code) from error


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"veridical {version('veridical')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which release this is.")
    ] = False,
) -> None:
    """A replicated memory for AI agents that can be trusted, traced and made to forget."""


def application() -> typer.Typer:
    """The command line with all its verbs."""
    verbs = typer.Typer(
        cls=Verbs, callback=_root, epilog=EXIT_CODES, no_args_is_help=True, pretty_exceptions_enable=False
    )
    for verb in (cluster.up, cluster.down, status.status, cluster.transfer):
        verbs.command(rich_help_panel="Clusters")(verb)
    verbs.command(rich_help_panel="Clusters", context_settings=PASSED_ON)(cluster.node)
    verbs.add_typer(_member(), name="member", rich_help_panel="Clusters")
    said = (facts.remember, facts.correct, facts.withdraw, facts.forget, facts.erase)
    for verb in (*said, facts.get, facts.recall, facts.history, memberships.members_as_of):
        verbs.command(rich_help_panel="Memory")(verb)
    verbs.command(rich_help_panel="Memory")(watching.watch)
    verbs.command("import", rich_help_panel="Memory")(importing.import_file)
    verbs.add_typer(_principal(), name="principal", rich_help_panel="Trust")
    verbs.add_typer(_grant(), name="grant", rich_help_panel="Trust")
    verbs.add_typer(_token(), name="token", rich_help_panel="Trust")
    verbs.add_typer(_lattice(), name="lattice", rich_help_panel="Trust")
    verbs.add_typer(_review(), name="review", rich_help_panel="Trust")
    verbs.add_typer(_certs(), name="certs", rich_help_panel="Trust")
    verbs.add_typer(_audit(), name="audit", rich_help_panel="Proof")
    verbs.add_typer(_backup(), name="backup", rich_help_panel="Loss")
    for verb in (backups.restore, backups.recover):
        verbs.command(rich_help_panel="Loss")(verb)
    verbs.add_typer(_antientropy(), name="antientropy", rich_help_panel="Proof")
    for verb in (doctor.doctor, reindexing.reindex, reindexing.reembed, drilling.drill):
        verbs.command(rich_help_panel="Proof")(verb)
    verbs.command(rich_help_panel="Proof", context_settings=PASSED_ON)(simulation.sim)
    return verbs


def _certs() -> typer.Typer:
    verbs = typer.Typer(no_args_is_help=True, help="A small authority, and certificates for nodes and clients.")
    for verb in (certificates.init, certificates.issue, certificates.rotate, certificates.show):
        verbs.command()(verb)
    return verbs


def _audit() -> typer.Typer:
    verbs = typer.Typer(
        no_args_is_help=True,
        help="Check histories, compare states, look into an entry, fold it all again, take it along.",
    )
    for verb in (audit.verify, audit.compare, audit.replay, audit.show, audit.trace, audit.export):
        verbs.command()(verb)
    return verbs


def _antientropy() -> typer.Typer:
    verbs = typer.Typer(
        no_args_is_help=True,
        help="What the nodes compare, look through and repair by themselves; and all of it now.",
    )
    for verb in (antientropy.status, antientropy.run):
        verbs.command()(verb)
    return verbs


def _backup() -> typer.Typer:
    verbs = typer.Typer(no_args_is_help=True, help="Take a history along in one file, and check it.")
    for verb in (backups.create, backups.verify):
        verbs.command()(verb)
    return verbs


def _member() -> typer.Typer:
    verbs = typer.Typer(no_args_is_help=True, help="Take nodes in and out, and say who counts.")
    verbs.command("list")(members.listed)
    for verb in (members.add, members.promote, members.remove):
        verbs.command()(verb)
    verbs.command("replace")(members.replace_member)
    verbs.command()(members.quorum)
    return verbs


def _principal() -> typer.Typer:
    verbs = typer.Typer(no_args_is_help=True, help="Make keys, enroll and revoke them, let one follow another.")
    verbs.command("list")(principals.known)
    for verb in (principals.new, principals.enroll, principals.revoke, principals.rotate):
        verbs.command()(verb)
    return verbs


def _grant() -> typer.Typer:
    verbs = typer.Typer(no_args_is_help=True, help="Say who may do what where.")
    verbs.command("list")(principals.grants)
    for verb in (principals.give, principals.take):
        verbs.command()(verb)
    return verbs


def _token() -> typer.Typer:
    verbs = typer.Typer(no_args_is_help=True, help="Bearer tokens: what reads for a principal without its key.")
    verbs.command("list")(bearers.listed)
    for verb in (bearers.issue, bearers.revoke):
        verbs.command()(verb)
    return verbs


def _review() -> typer.Typer:
    verbs = typer.Typer(
        callback=reviewing.desk,
        invoke_without_command=True,
        help="Approve, reject or correct what waits for a reviewer; without a verb, one record after the other.",
    )
    verbs.command("list")(reviewing.waiting)
    for verb in (reviewing.show, reviewing.approve, reviewing.reject, reviewing.edit, reviewing.revoke_rejection):
        verbs.command()(verb)
    return verbs


def _lattice() -> typer.Typer:
    verbs = typer.Typer(no_args_is_help=True, help="Say which scope lies within which.")
    verbs.command("show")(lattices.show)
    verbs.command("set")(lattices.place)
    return verbs


def main() -> None:
    """The console script. Ends the process."""
    application()(prog_name="veridical")


if __name__ == "__main__":
    main()
