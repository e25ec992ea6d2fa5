"""`lattice …`: which scope lies within which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import screen
from .facts import TIMEOUT_S, CommandOption
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption

if TYPE_CHECKING:
    from rich.tree import Tree

    from ..memory.lattice import ScopeLattice

ScopeArgument = Annotated[str, typer.Argument(metavar="SCOPE", help="As in repo:app.", show_default=False)]


def show(
    scope: Annotated[
        str | None, typer.Argument(metavar="[SCOPE]", help="Only the way up from there.", show_default=False)
    ] = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Show the lattice, as far as you may read its scopes; of one scope, where a recall looks for what holds there."""
    from .target import connected

    with connected(data, endpoint, timeout, key=key) as memory:
        lattice = memory.lattice()
    way = None if scope is None else lattice.resolve(scope)
    if as_json:
        screen.say_json(lattice.parents if way is None else list(way))
    elif way is not None:
        screen.say(" → ".join(way))
    else:
        for root in sorted(set(lattice.parents.values()) - set(lattice.parents)):
            screen.console().print(_tree(lattice, root))


def place(
    scope: ScopeArgument,
    parent: Annotated[
        str | None, typer.Argument(metavar="[PARENT]", help="The scope that it lies within.", show_default=False)
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="It lies within no other scope.", show_default=False)] = False,
    key: KeyOption = None,
    command: CommandOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """From now on a scope lies within another one, or within none."""
    from ..memory.errors import Invalid
    from .target import connected

    if (parent is None) != alone:
        raise Invalid("parent", "name the scope that it lies within, or say --alone")
    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.set_scope_parent(scope, parent, command_id=command)
    if as_json:
        screen.say_json(
            {"outcome": done.outcome, "scope": scope, "parent": parent, "command_id": done.command_id}
            | done.event.model_dump(include={"epoch", "index"})
        )
    else:
        screen.say(f"{done.outcome} {scope} in {parent or 'none'} (epoch {done.event.epoch}, index {done.event.index})")


def _tree(lattice: ScopeLattice, root: str) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text(screen.plain(root)))
    for child in lattice.children(root):
        tree.add(_tree(lattice, child))
    return tree
