"""History cannot be changed unnoticed: entries, canonical encoding, hash chain, seals, storage."""
