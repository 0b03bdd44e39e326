"""Sees the API server's objects as a user would, by watches of its own, and notes when things happened."""

import collections
import http.client
import re
import threading
import time

from harness.kube import Api, ApiError

POD_NAME = re.compile(rb'"metadata":\{"name":"([^"]+)"')
POD_OWNER = re.compile(rb'"ownerReferences":\[\{[^\]]*?"name":"([^"]+)"')
POD_READY = re.compile(rb'"type":"Ready","status":"True"|"status":"True","type":"Ready"|"status":"True"[^{}]*"type":"Ready"|"type":"Ready"[^{}]*"status":"True"')
CONDITION_RUNNING = re.compile(rb'\{[^{}]*"type":"Running"[^{}]*\}')


class WatchingApi(Api):
    """An Api that can also read an answer line by line as it comes."""

    def lines(self, path):
        connection = http.client.HTTPSConnection(self._address.hostname, self._address.port, timeout=3600, context=self._context)
        try:
            connection.request("GET", path, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError("GET", path, answer.status, answer.read().decode(errors="replace"))
            yield from answer
        finally:
            connection.close()


class Job:
    def __init__(self):
        self.created_pods = {}      # name → when first seen
        self.ready_pods = {}        # name → when first seen ready
        self.running = None         # when its status said Running
        self.gone_pods = 0


class Observer:
    """Two watches (pods, jobs), each on a thread and a connection of its own. Lines are searched, not parsed: the observer's own CPU is the cluster's."""

    def __init__(self, plane, job_path, pod_path):
        self._plane = plane
        self._changed = threading.Condition()
        self._jobs = collections.defaultdict(Job)
        self._problem = None
        self._stopping = False
        self._threads = [threading.Thread(target=self._follow, args=(path, note), daemon=True)
                         for path, note in ((pod_path, self._note_pod), (job_path, self._note_job))]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stopping = True

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

    def forget(self, name):
        with self._changed:
            self._jobs.pop(name, None)

    def _follow(self, path, note):
        api = WatchingApi(self._plane.kubeconfig)
        version = api.get(path + "?limit=1")["metadata"]["resourceVersion"]
        try:
            while not self._stopping:
                for line in api.lines(f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=3600"):
                    now = time.monotonic()
                    with self._changed:
                        note(line, now)
                        self._changed.notify_all()
                    if self._stopping:
                        return
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            with self._changed:
                self._problem = error
                self._changed.notify_all()

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
