"""A relay between a worker and a server that keeps what both say, and can fall silent."""

import contextlib
import socket
import threading


class Relay:
    def __init__(self, port):
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port = self._listener.getsockname()[1]
        self.said = []  # by the diallers, a bytearray for each connection
        self._sockets = []
        self.silent = threading.Event()  # set: nothing goes on in either direction
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self):
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                one.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._to), timeout=30)
                except OSError:
                    near.close()
                    continue
                self._sockets += [near, far]
                said = bytearray()
                self.said.append(said)
                for source, sink, kept in ((near, far, said), (far, near, None)):
                    threading.Thread(target=self._pass_on, args=(source, sink, kept), daemon=True).start()

    def _pass_on(self, source, sink, kept):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self.silent.is_set():
                    continue
                if kept is not None and len(kept) < 1 << 20:
                    kept += data
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
