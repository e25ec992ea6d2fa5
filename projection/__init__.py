"""History folded into SQLite: rows, versions, full text and digests, at one index of the log, and foldable again."""
