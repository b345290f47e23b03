"""GET requests over a blocking socket: every form in which a server may delimit its answer, and what is none."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from lanloom.kube.blocking import Answer, BadAnswer, PlainConnection

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[PlainConnection, list[bytes]]]:
    """A connection to a server that answers each request with the next bytes, and ends after the last."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer, suppress(ConnectionError):  # a client that has read enough closes its end
                for answer in answers:
                    request = b""
                    while not request.endswith(b"\r\n\r\n"):
                        if not (chunk := peer.recv(1 << 16)):
                            return
                        request += chunk
                    seen.append(request)
                    peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        connection = PlainConnection("127.0.0.1", server.getsockname()[1], timeout=30)
        connection.connect()
        try:
            yield connection, seen
        finally:
            connection.close()
            thread.join()


@pytest.mark.parametrize(
    ("sent", "answer", "stays"),
    [
        (LENGTH, Answer(200, "OK", b"hi"), True),
        (b"HTTP/1.1 200\ncontent-length:2\n\nhi", Answer(200, "", b"hi"), True),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;a=b\r\ni\r\n0\r\nA: b\r\n\r\n",
            Answer(200, "OK", b"hi"),
            True,
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nhi", Answer(200, "OK", b"hi"), False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", Answer(200, "OK", b"hi"), False),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", Answer(200, "OK", b""), False),
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + LENGTH, Answer(200, "OK", b"hi"), True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, "No Content", b""), True),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\n{}\n",
            Answer(404, "Not Found", b"{}\n"),
            True,
        ),
    ],
)
def test_each_form_of_an_answer_is_read(sent: bytes, answer: Answer, stays: bool) -> None:
    """A body ends by its length, its last chunk, or with the connection, which stays open where HTTP/1.1 says so."""
    with answering(sent) as (connection, seen):
        assert connection.get("/a?b=c", [("Accept", "application/json")]) == answer
        assert connection.is_open is stays
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == "GET /a?b=c HTTP/1.1"
    assert f"Host: 127.0.0.1:{connection.port}" in lines
    assert "Accept: application/json" in lines


def test_two_requests_take_one_connection() -> None:
    """The second answer begins where the first one ends."""
    with answering(LENGTH, LENGTH.replace(b"hi", b"ho")) as (connection, seen):
        assert [connection.get(path, []).body for path in ("/1", "/2")] == [b"hi", b"ho"]
    assert len(seen) == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 none OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n",
    ],
)
def test_what_is_no_answer_is_an_error(sent: bytes) -> None:
    """An answer that breaks off, is not HTTP or has no bounds is refused, and its connection is not used again."""
    with answering(sent) as (connection, _):
        with pytest.raises((BadAnswer, ConnectionError)):
            connection.get("/", [])
        assert not connection.is_open


def test_a_server_that_trickles_is_given_up() -> None:
    """The time limit is that of the whole answer: bytes that come in time one by one do not extend it."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            peer, _ = server.accept()
            with peer, suppress(ConnectionError):
                while not over.wait(0.01):
                    peer.sendall(b"H")

        thread = threading.Thread(target=trickle)
        thread.start()
        connection = PlainConnection("127.0.0.1", server.getsockname()[1], timeout=0.2)
        connection.connect()
        try:
            with pytest.raises(TimeoutError):
                connection.get("/", [])
            assert not connection.is_open
        finally:
            over.set()
            thread.join()
