"""Values: immutable to the type checker, and as cheap to make as any object.

A frozen dataclass guards its fields at run time, and pays for that ten times over whenever one is made. Messages and
entries are made by the thousand, so that here the type checker, which reads all code, is the guard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type[Any])


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(*, slots: bool = True) -> Callable[[Class], Class]:
    """Make a class a dataclass of fields that nobody assigns; equal and hashed by its fields."""

    def decorated(cls: Class) -> Class:
        return dataclass(slots=slots, unsafe_hash=True)(cls)

    return decorated
