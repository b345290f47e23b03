"""`lanloom lan trace`: the way of a frame from one spoke of a LAN to another, hop by hop.

What the API server has is every hop as nodes report it; the kernel of a node is read on that node alone.
"""
