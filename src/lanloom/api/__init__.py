"""The resources as types: the vocabulary that everything else speaks. No I/O, no knowledge of other packages."""
