"""The wire contract: the `.proto` files and what is generated from them."""
