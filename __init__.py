"""Veridical: a replicated memory for AI agents that can be trusted, traced and made to forget."""
