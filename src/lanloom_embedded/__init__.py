"""The embedded API server: an engine that knows no HTTP, and the front that speaks it."""
