"""Programs that a container runtime starts on a host: each one file, standard library only, nothing else of Lanloom."""
