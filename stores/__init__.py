"""Where a memory is kept is a setting: backends by name, none guessed, none taken over by another package."""

from .registry import ignored_backends, known_backends, load_backend

__all__ = ["ignored_backends", "known_backends", "load_backend"]
