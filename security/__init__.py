"""Who somebody is and what they may do: keys, principals, keyed digests."""
