"""The commands. Each is a module of its own that is imported when it runs, so that `lanloom --help` is quick."""
