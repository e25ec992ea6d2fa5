"""A whole cluster in one thread, with fakes for clock, network and disk: every run follows from its seed."""
