"""A small client of the Kubernetes REST API over the standard library: what a test needs, and it shows the server's own words on errors."""

import base64
import http.client
import json
import pathlib
import ssl
import tempfile
import urllib.parse


class ApiError(AssertionError):
    """The API server said no. `code` is the HTTP status, `reason` and `message` are those of the Status object."""

    def __init__(self, method, path, code, body):
        try:
            status = json.loads(body)
        except ValueError:
            status = {}
        self.code = code
        self.reason = status.get("reason", "")
        self.message = status.get("message", body)
        super().__init__(f"{method} {path}: {code} {self.reason}: {self.message}")


class Api:
    """Requests with the client certificate of a kubeconfig. One connection at a time; not for use by several threads."""

    def __init__(self, kubeconfig, timeout=30.0):
        self.kubeconfig = kubeconfig
        config = json.loads(pathlib.Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._address = urllib.parse.urlsplit(cluster["server"])
        self._timeout = timeout
        self._context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            self._context.load_cert_chain(pem.name)
        self._connection = None

    def text(self, method, path, body=None, content_type="application/json"):
        """One request; the answer's text. Raises ApiError for an answer that is not 2xx, OSError when there is no answer."""
        payload = None if body is None else json.dumps(body)
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(self._address.hostname, self._address.port, timeout=self._timeout, context=self._context)
            try:
                self._connection.request(method, path, payload, {"Content-Type": content_type, "Accept": "application/json"})
                answer = self._connection.getresponse()
                data = answer.read().decode(errors="replace")
                break
            except (http.client.HTTPException, OSError) as error:
                # A kept connection that the server has closed meanwhile shows only on use: try once more on a new one.
                self.close()
                if attempt == 2:
                    raise ConnectionError(f"{method} {path}: {error!r}") from error
        if not 200 <= answer.status < 300:
            raise ApiError(method, path, answer.status, data)
        return data

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(self, method, path, body=None, content_type="application/json"):
        return json.loads(self.text(method, path, body, content_type))

    def get(self, path):
        return self.request("GET", path)

    def find(self, path):
        """The object, or None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def exists(self, path):
        return self.find(path) is not None

    def list(self, path, selector=None):
        query = "?" + urllib.parse.urlencode({"labelSelector": selector}) if selector else ""
        return self.get(path + query)["items"]

    def create(self, path, body):
        return self.request("POST", path, body)

    def replace(self, path, body):
        return self.request("PUT", path, body)

    def merge(self, path, patch):
        """A JSON merge patch; `path` may end in /status."""
        return self.request("PATCH", path, patch, "application/merge-patch+json")

    def delete(self, path, grace_seconds=None, propagation="Background"):
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            return self.request("DELETE", path, body)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
