"""The kit of the comparison: cases are scripts of HTTP requests, run on both kinds of API server."""
