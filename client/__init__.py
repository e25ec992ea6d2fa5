"""The network client: it finds the leader, retries with the same command id, and ends every call in time."""
