"""A peer of the trainer's streams that says what a test wants: HTTP/2 frames, gRPC messages and records (docs/wire.md) by hand."""

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1
END_HEADERS = 4

HELLO, WELCOME, STATE, PULL, VALUES, PUSH, HEARTBEAT, ERROR, CHALLENGE, PROOF = 1, 2, 3, 6, 7, 8, 10, 13, 16, 17
HEADER = struct.Struct("<IHHIIIIIHBBQQIIQ")
FIELDS = ("magic", "version", "op", "flags", "epoch", "sender", "key", "part", "slot", "dtype", "codec", "step", "offset", "length", "crc",
          "fingerprint")
MAGIC = 0x44525954
OBSERVER = 0xFFFFFFFF


def record(op, payload=b"", **fields):
    """A record's bytes; every field may be another than the true one."""
    header = {"magic": MAGIC, "version": 2, "op": op, "flags": 0, "epoch": 0, "sender": 0, "key": 0, "part": 0, "slot": 0, "dtype": 255, "codec": 0,
              "step": 0, "offset": 0, "length": len(payload), "crc": 0, "fingerprint": 0, **fields}
    return HEADER.pack(*(header[name] for name in FIELDS)) + payload


def records_of(message):
    """[(header as a dict, payload)] of a message of records that are whole."""
    found = []
    while message:
        header = dict(zip(FIELDS, HEADER.unpack_from(message)))
        found.append((header, message[HEADER.size:HEADER.size + header["length"]]))
        message = message[HEADER.size + header["length"]:]
    return found


def proof_of(key, label, dialler, listener):
    return hmac.new(key, label + dialler + listener, hashlib.sha256).digest()


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers_block(path=b"/trainyard.Transport/Stream", extra=()):
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"localhost"), (b"te", b"trailers"),
              (b"content-type", b"application/grpc"), *extra]
    return b"".join(b"\0" + bytes([len(name)]) + name + integer(len(value), 7) + value for name, value in fields)


def integer(value, bits):
    """HPACK's integers (RFC 7541, 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out, value = bytes([most]), value - most
    while value >= 128:
        out, value = out + bytes([value % 128 + 128]), value // 128
    return out + bytes([value])


def framed(message):
    """As gRPC sends it."""
    return struct.pack(">BI", 0, len(message)) + message


class Closed(Exception):
    """The server has ended the stream or the connection."""


class Frames:
    """Cuts a direction of a connection into HTTP/2 frames, and those into gRPC messages."""

    def __init__(self, preface=0):
        self._skip = preface
        self._bytes = b""
        self._data = b""
        self.messages = []

    def feed(self, data):
        """The frames that `data` completes, as (kind, flags, stream, payload)."""
        self._bytes += data
        taken = min(self._skip, len(self._bytes))
        self._bytes, self._skip = self._bytes[taken:], self._skip - taken
        frames = []
        while len(self._bytes) >= 9:
            length = int.from_bytes(self._bytes[:3], "big")
            if len(self._bytes) < 9 + length:
                break
            kind, flags, stream = struct.unpack(">BBI", self._bytes[3:9])
            payload = self._bytes[9:9 + length]
            self._bytes = self._bytes[9 + length:]
            frames.append((kind, flags, stream, payload))
            if kind == DATA:
                self._cut(payload)
        return frames

    def _cut(self, payload):
        self._data += payload
        while len(self._data) >= 5:
            length = int.from_bytes(self._data[1:5], "big")
            if len(self._data) < 5 + length:
                return
            self.messages.append(self._data[5:5 + length])
            self._data = self._data[5 + length:]


class Peer:
    """One connection with one stream. Everything waits at most `timeout` seconds."""

    def __init__(self, port, opens=True, timeout=15):
        self.deadline = time.monotonic() + timeout
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._frames = Frames()
        self._records = []
        self._ended = False
        self._windows = [65535, 65535]  # of the connection and the stream, in bytes that may be sent
        self._first_window = 65535
        self.send(PREFACE + frame(SETTINGS, 0, 0))
        if opens:
            self.send(frame(HEADERS, END_HEADERS, 1, headers_block()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def say(self, message):
        """A gRPC message, whatever its bytes."""
        data = framed(message)
        while data:
            room = min(16384, *self._windows)
            if room <= 0:
                self._read()
                continue
            self._windows = [window - len(data[:room]) for window in self._windows]
            self.send(frame(DATA, 0, 1, data[:room]))
            data = data[room:]

    def next(self):
        """The next record from the server: (header, payload)."""
        while not self._records:
            while self._frames.messages:
                self._records += records_of(self._frames.messages.pop(0))
            if not self._records:
                self._read()
        return self._records.pop(0)

    def _read(self):
        if self._ended:
            raise Closed
        self.socket.settimeout(max(0.001, self.deadline - time.monotonic()))
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError as error:
            raise Closed from error
        if not data:
            raise Closed
        for kind, flags, stream, payload in self._frames.feed(data):
            with contextlib.suppress(Closed):
                if kind == SETTINGS and not flags & ACK:
                    self._take_settings(payload)
                    self.send(frame(SETTINGS, ACK, 0))
                elif kind == PING and not flags & ACK:
                    self.send(frame(PING, ACK, 0, payload))
                elif kind == DATA and payload:
                    self.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))) + frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", len(payload))))
            if kind == WINDOW_UPDATE:
                self._windows[min(stream, 1)] += int.from_bytes(payload, "big")
            self._ended = self._ended or kind in (RST_STREAM, GOAWAY) or bool(kind == HEADERS and flags & END_STREAM)

    def _take_settings(self, payload):
        for start in range(0, len(payload), 6):
            name, value = struct.unpack_from(">HI", payload, start)
            if name == 4:  # SETTINGS_INITIAL_WINDOW_SIZE
                self._windows[1] += value - self._first_window
                self._first_window = value

    def await_op(self, op):
        while True:
            header, payload = self.next()
            if header["op"] == op:
                return header, payload

    def end(self):
        """Waits for the end of the stream: the text of the server's error, or ""."""
        text = ""
        with contextlib.suppress(Closed):
            while True:
                header, payload = self.next()
                if header["op"] == ERROR:
                    text = payload[4:].decode(errors="replace")
        return text

    def prove(self, key, wrong=False):
        nonce = os.urandom(32)
        self.say(record(CHALLENGE, nonce))
        _, answer = self.await_op(PROOF)
        theirs = answer[:32]
        assert answer[32:] == proof_of(key, b"trainyard listener", nonce, theirs), "the server does not prove the key"
        self.say(record(PROOF, bytes(32) if wrong else proof_of(key, b"trainyard dialler", nonce, theirs)))
