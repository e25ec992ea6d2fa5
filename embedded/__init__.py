"""Memory in the caller's own process, and the public classes that hide whether a server is there."""
