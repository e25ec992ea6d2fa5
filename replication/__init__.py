"""What was acknowledged is never lost: the pure core of append, commit, recovery, read barriers and membership."""
