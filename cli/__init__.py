"""The command `veridical`: one verb for each wish, for people and, with `--json`, for programs."""
