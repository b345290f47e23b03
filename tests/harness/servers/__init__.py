"""Real servers for tests: what the embedded ones are compared with."""
