"""What all tests share: a fixed hypothesis profile, so that a test says the same on every machine and every day.

`pytest --hypothesis-profile=explore` looks further, from a new seed; a failure prints the seed and how to use it again.
"""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("fixed")
