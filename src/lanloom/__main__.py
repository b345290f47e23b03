"""`python -m lanloom`, as containers and labs run it: the program `lanloom`."""

from lanloom.entry import main

if __name__ == "__main__":
    main()
