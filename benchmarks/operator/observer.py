"""Sees the API server's objects as a user would, by watches of its own, and notes when things happened."""

import collections
import contextlib
import re
import select
import socket
import threading
import time

from harness.kube import Api

RECEIVE_BUFFER = 4 << 20
WATCH_SECONDS = 3600
LOAD_RESOLUTION = 0.05  # seconds; for measurements of many pods at once

POD_NAME = re.compile(rb'"metadata":\{"name":"([^"]+)"')
POD_OWNER = re.compile(rb'"ownerReferences":\[\{[^\]]*?"name":"([^"]+)"')
POD_READY = re.compile(rb'"type":"Ready","status":"True"|"status":"True","type":"Ready"|"status":"True"[^{}]*"type":"Ready"|"type":"Ready"[^{}]*"status":"True"')
VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
CONDITION_RUNNING = re.compile(rb'\{[^{}]*"type":"Running"[^{}]*\}')


class Watch(Api):
    """A watch's lines as they come, without a thought spent on each. HTTP/1.0, so that the stream is not in chunks."""

    def __init__(self, kubeconfig, path):
        super().__init__(kubeconfig)
        connection = socket.create_connection((self._address.hostname, self._address.port), timeout=self._timeout)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)  # one that is slow to read is thrown out by the server
        self._stream = self._context.wrap_socket(connection, server_hostname=self._address.hostname)
        self._stream.sendall(f"GET {path} HTTP/1.0\r\nHost: {self._address.hostname}\r\nAccept: application/json\r\n\r\n".encode())
        self._rest = b""
        while b"\r\n\r\n" not in self._rest:
            self._rest += self._receive()
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        status = head.split(b"\r\n", 1)[0]
        if b" 200 " not in status:
            raise ConnectionError(f"GET {path}: {status.decode(errors='replace')}")

    def _receive(self):
        received = self._stream.recv(1 << 16)
        if not received:
            raise EOFError("the API server ended the watch")
        return received

    def read(self, seconds):
        """The lines that have come; waits for so long where there are none."""
        while self._stream.pending() or select.select([self._stream], [], [], seconds)[0]:
            self._rest += self._receive()
            seconds = 0
        *lines, self._rest = self._rest.split(b"\n")
        return lines

    def close(self):
        self._stream.close()


class Job:
    def __init__(self):
        self.created_pods = {}      # name → when first seen
        self.ready_pods = {}        # name → when first seen ready
        self.running = None         # when its status said Running
        self.gone_pods = 0

    def runs_since(self, replicas):
        """When all its pods were ready and its status said Running; None before. Peers say Running when one worker runs."""
        if self.running is None or len(self.ready_pods) < replicas:
            return None
        return max(self.running, *self.ready_pods.values())

    def status_lag(self):
        """Seconds from its last ready pod to its status; below 0 where the status did not wait for all pods."""
        return self.running - max(self.ready_pods.values())


class Observer:
    """Two watches (pods, jobs), each on a thread and a connection of its own. The observer's processor time is the cluster's: lines are searched,
    not parsed, and with a resolution (in seconds) only looked at so often."""

    def __init__(self, plane, job_path, pod_path, resolution=0.0):
        self._plane = plane
        self._resolution = resolution
        self._changed = threading.Condition()
        self._jobs = collections.defaultdict(Job)
        self._problem = None
        self._stopping = False
        self.ended = {"pods": 0, "jobs": 0}  # watches that the API server ended: what they would have told then comes later
        self._threads = [threading.Thread(target=self._follow, args=(path, name, note), daemon=True)
                         for path, name, note in ((pod_path, "pods", self._note_pod), (job_path, "jobs", self._note_job))]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stopping = True
        for thread in self._threads:
            thread.join()

    def wait(self, what, condition, seconds):
        """Waits until condition(jobs) holds; jobs: name → Job."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition(self._jobs):
                if self._problem is not None:
                    raise RuntimeError(f"the observer's watch broke: {self._problem}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"not within {seconds} s: {what}")
                self._changed.wait(min(left, 0.5))

    def snapshot(self):
        with self._changed:
            return dict(self._jobs)

    def _follow(self, path, name, note):
        try:
            with contextlib.closing(self._plane.api()) as api:
                version = api.get(path + "?limit=1")["metadata"]["resourceVersion"]
            while not self._stopping:
                version = self._follow_once(path, version, name, note)
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            with self._changed:
                self._problem = error
                self._changed.notify_all()

    def _follow_once(self, path, version, name, note):
        """Until the server ends the watch, as it does with one that it finds slow. Returns the version to go on from."""
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        with contextlib.closing(Watch(self._plane.kubeconfig, f"{path}?{query}")) as watch:
            while not self._stopping:
                try:
                    lines, now = watch.read(0.5), time.monotonic()
                except EOFError:
                    self.ended[name] += 1
                    break
                with self._changed:
                    for line in lines:
                        note(line, now)
                    self._changed.notify_all()
                if lines:
                    version = VERSION.search(lines[-1]).group(1).decode()
                time.sleep(self._resolution)
        return version

    def _note_pod(self, line, now):
        owner, name = POD_OWNER.search(line), POD_NAME.search(line)
        if not owner or not name:
            return
        job, pod = self._jobs[owner.group(1).decode()], name.group(1)
        if line.startswith(b'{"type":"DELETED"'):
            job.gone_pods += 1
            return
        job.created_pods.setdefault(pod, now)
        if pod not in job.ready_pods and POD_READY.search(line):
            job.ready_pods[pod] = now

    def _note_job(self, line, now):
        condition = CONDITION_RUNNING.search(line)
        if condition and b'"status":"True"' in condition.group(0):
            job = self._jobs[re.search(rb'"name":"([^"]+)","namespace"', line).group(1).decode()]
            if job.running is None:
                job.running = now
