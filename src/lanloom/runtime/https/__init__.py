"""The HTTPS port of a process: bounds on peers, headers and bodies, and Status objects as answers."""
