"""The processes and what they are put together of."""
