"""The one process that acts: it drives the pure cores with gRPC, SQLite, clocks and timers, and stops when they say so."""
