"""A whole cluster on one machine, for demonstrations and tests; production code never imports it."""
