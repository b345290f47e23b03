"""A bare ASGI application on uvicorn over HTTPS: what answers of so many bytes cost without an API behind them.

`/` answers with them. `/stream` sends them as that many messages, one after the other, as a watch does.
"""

import asyncio
import socket
import sys
import tempfile
from typing import Any

import trustme
import uvicorn


def application(size: int, messages: int) -> Any:
    """Return an application whose answers and messages have `size` bytes."""
    body = b"x" * size
    headers = [(b"content-type", b"application/json")]

    async def answer(scope: dict[str, Any], _receive: Any, send: Any) -> None:
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for _ in range(messages):
                await send({"type": "http.response.body", "body": body, "more_body": True})
                await asyncio.sleep(0)  # each is sent by itself
            await send({"type": "http.response.body", "body": b""})
            return
        length = (b"content-length", str(size).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": body})

    return answer


async def serve(size: int, messages: int) -> None:
    """Serve on a free port, which is printed."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(file.name)
        config = uvicorn.Config(
            application(size, messages),
            ssl_certfile=file.name,
            log_level="warning",
            access_log=False,
            lifespan="off",
        )
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        await uvicorn.Server(config).serve([listening])


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(*map(int, sys.argv[1:])))
