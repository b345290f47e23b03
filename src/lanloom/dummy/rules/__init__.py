"""What holds of isolated networks, as pure functions on immutable values."""
