"""Exercises on a running cluster: break it on purpose, under load, and account for every acknowledgement."""
