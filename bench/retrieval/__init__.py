"""How well recall finds: a set of invented conversations, LoCoMo where its path is given, beside plain BM25."""
