"""gRPC between processes of one node, over Unix sockets: unary calls and streams of answers, small messages only.

Why not a library: kubelet opens a connection for every device, and an agent has a thousand of them. Measured with 1,000
connections, grpclib on h2 took 51 MB, more than the rest of the agent. `http2` is the part of RFC 9113 that a kubelet's
calls need, on `hpack` for headers; `server` and `client` are gRPC on top. Tests run both against grpclib on h2.
"""
