"""Servers and clients that do harm: bytes on a socket, as slow, as long and as wrong as a test asks for."""

import contextlib
import socket
import threading
import time

OK = b"HTTP/1.1 200 OK\r\n"


class RawServer:
    """Calls answer(connection) on a thread of its own for each peer, once the peer has said something."""

    def __init__(self, answer, port=0):
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.peers = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self):
        self._listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self.peers += 1
                threading.Thread(target=self._talk, args=(peer,), daemon=True).start()

    def _talk(self, peer):
        with contextlib.suppress(OSError), peer:
            peer.recv(65536)
            self._answer(peer)


def says(data):
    return lambda peer: peer.sendall(data)


def body(data, status=b"HTTP/1.1 200 OK", headers=b""):
    return says(status + b"\r\nContent-Length: %d\r\n" % len(data) + headers + b"\r\n" + data)


def for_ever(first, again, pause=0.0):
    def answer(peer):
        peer.sendall(first)
        while True:
            peer.sendall(again)
            time.sleep(pause)
    return answer


def slow_client(port, data=b""):
    """A connection that has said `data` and stays."""
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    with contextlib.suppress(OSError):
        client.sendall(data)
    return client
