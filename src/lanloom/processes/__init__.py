"""The processes: loops over the features, which know none of them."""
