"""An API server in a few lines, for the operator's real program. It has objects, versions, lists,
watches and a kubelet that makes every pod ready at once.

It is told to misbehave by what is put into it: an object may be a Raw text, and `answers` may take over any request.
"""

import http.server
import json
import re
import socketserver
import threading
import urllib.parse

PATH = re.compile(r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[a-z]+)"
                  r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$")


class Raw:
    """An object's text as it is sent, whatever it is."""

    def __init__(self, text):
        self.text = text


def text_of(item):
    return item.text if isinstance(item, Raw) else json.dumps(item)


class ApiServer:
    def __init__(self, pod_ip="127.0.0.1"):
        self.changed = threading.Condition()
        self.objects = {}      # plural → {(namespace, name): object}
        self.history = []      # (version, plural, type, object)
        self.writes = []       # (method, path, object), in the order in which they were done
        self.version = 100
        self.answers = None    # (handler) → True when it has answered the request itself
        self.pod_ip = pod_ip
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def serve(self):
                try:
                    outer.serve(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self.http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

    # ---- what tests do ----

    def put(self, plural, item, name=None, ns="default"):
        """Stores the object, or a Raw text under `name`."""
        with self.changed:
            if not isinstance(item, Raw):
                name, ns = item["metadata"]["name"], item["metadata"].setdefault("namespace", ns)
            return self._commit(plural, (ns, name), item)

    def get(self, plural, name, ns="default"):
        with self.changed:
            return self.objects.get(plural, {}).get((ns, name))

    def all(self, plural):
        with self.changed:
            return list(self.objects.get(plural, {}).values())

    def next_version(self):
        with self.changed:
            self.version += 1
            return self.version

    # ---- requests ----

    def _commit(self, plural, key, item):
        known = self.objects.setdefault(plural, {})
        kind = "MODIFIED" if key in known else "ADDED"
        self.version += 1
        if not isinstance(item, Raw):
            meta = item["metadata"]
            meta.setdefault("uid", f"uid-{self.version}")
            meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            meta.setdefault("generation", 1)
            meta["resourceVersion"] = str(self.version)
        known[key] = item
        self.history.append((self.version, plural, kind, text_of(item)))
        self.changed.notify_all()
        return item

    def serve(self, handler):
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length)) if length else None
        if self.answers is not None and self.answers(handler):
            return
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        match = PATH.match(url.path)
        if not match:
            self.answer(handler, 404, self.refusal(404, "NotFound"))
        elif handler.command == "GET" and "watch" in query:
            self.watch(handler, match["plural"], match["ns"], int(query.get("resourceVersion", "0")))
        elif handler.command == "GET" and not match["name"]:
            with self.changed:
                items = [text_of(item) for (ns, _), item in self.objects.get(match["plural"], {}).items() if match["ns"] in (None, ns)]
                version = self.version
            self.answer(handler, 200, '{"kind":"List","metadata":{"resourceVersion":"%d"},"items":[%s]}' % (version, ",".join(items)))
        else:
            self.one(handler, match, body)

    @staticmethod
    def refusal(code, reason):
        return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": reason})

    @staticmethod
    def answer(handler, code, text, **headers):
        data = text.encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    def one(self, handler, match, body):
        plural, ns, method = match["plural"], match["ns"] or "", handler.command
        with self.changed:
            known = self.objects.setdefault(plural, {})
            key = (ns, match["name"] or (body["metadata"].get("name") if body else ""))
            stored = known.get(key)
            code, result = 200, stored
            if method == "POST" and stored is not None:
                code, result = 409, None
            elif method == "POST":
                body["metadata"]["namespace"] = ns
                if plural == "pods":
                    self.make_ready(body)
                code, result = 201, self._commit(plural, key, body)
            elif stored is None or isinstance(stored, Raw):
                code, result = 404, None
            elif method == "PUT":
                if body["metadata"].get("resourceVersion", stored["metadata"]["resourceVersion"]) != stored["metadata"]["resourceVersion"]:
                    code, result = 409, None
                else:
                    new = {**stored, "status": body.get("status")} if match["sub"] == "status" else {**body, "metadata": {**stored["metadata"], **body["metadata"]}}
                    result = self._commit(plural, key, new)
            elif method == "PATCH":
                result = self._commit(plural, key, {**stored, **{field: value for field, value in body.items() if field != "metadata"}})
            elif method == "DELETE":
                del known[key]
                self.version += 1
                gone = {**stored, "metadata": {**stored["metadata"], "resourceVersion": str(self.version)}}
                self.history.append((self.version, plural, "DELETED", json.dumps(gone)))
                result = {"kind": "Status", "status": "Success"}
            if method != "GET" and code < 300:
                self.writes.append((method, handler.path, result))
            self.changed.notify_all()
            text = self.refusal(code, {404: "NotFound", 409: "Conflict"}[code]) if code >= 400 else text_of(result)
        if method == "POST" and code == 409:
            text = self.refusal(code, "AlreadyExists")
        self.answer(handler, code, text)

    def make_ready(self, pod):
        name = pod["spec"]["containers"][0]["name"]
        pod["status"] = {"phase": "Running", "podIP": self.pod_ip, "conditions": [{"type": "Ready", "status": "True"}],
                         "containerStatuses": [{"name": name, "ready": True, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}

    def watch(self, handler, plural, ns, version):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        seen = 0
        while True:
            with self.changed:
                news = self.history[seen:]
                seen = len(self.history)
                if not news:
                    self.changed.wait(1.0)
                    continue
            for at, of, kind, text in news:
                if of == plural and at > version:
                    line = ('{"type":"%s","object":%s}\n' % (kind, text)).encode()
                    handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    handler.wfile.flush()
