"""History folded into SQLite: rows, versions, full text and digests, always at one index of the log, and always foldable again."""
