"""Stubs written by `make proto`; never edited by hand."""
