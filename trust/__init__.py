"""What earns trust and what lowers it: conversations, failures, rules and gates, as functions over any memory."""
