"""What is in the way of a deletion: the words for it, and whose finalizers they are."""
