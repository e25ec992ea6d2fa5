"""A whole cluster in one process and one thread, with fakes for clock, network and disk: every run follows from its seed."""
