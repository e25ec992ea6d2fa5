"""At most one leader an epoch: the quorum lease, pure, and the sources that may decide who tries."""
