"""What a kubelet and a scheduler would do to pods, done by the test: phases, readiness and exits are written into the pod's status."""

import time

from .jobs import PODS


class Kubelet:
    def __init__(self, api):
        self._api = api

    def run(self, *names, ready=True, restarts=0, last_code=1, since="2026-01-01T00:00:00Z"):
        """The pods run; `restarts` of their container by the kubelet have happened, the last one after it ended with `last_code`."""
        for name in names:
            container = self._container(name, {"running": {"startedAt": since}}, ready, restarts)
            if restarts:
                container["lastState"] = {"terminated": {"exitCode": last_code, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}}
            self._patch(name, {"phase": "Running", "podIP": "127.0.0.1", "conditions": [self._ready(ready)], "containerStatuses": [container]})

    def succeed(self, *names, seconds_ago=0, message=""):
        for name in names:
            self._end(name, "Succeeded", 0, "Completed", message, seconds_ago)

    def fail(self, name, code=1, reason="Error", message=""):
        self._end(name, "Failed", code, reason, message)

    def evict(self, name):
        self._patch(name, {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
                           "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}, self._ready(False)]})

    def _end(self, name, phase, code, reason, message, seconds_ago=0):
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))
        state = {"terminated": {"exitCode": code, "reason": reason, "message": message, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": end}}
        self._patch(name, {"phase": phase, "conditions": [self._ready(False)], "containerStatuses": [self._container(name, state, False, 0)]})

    def _container(self, name, state, ready, restarts):
        main = self._api.get(f"{PODS}/{name}")["spec"]["containers"][0]
        return {"name": main["name"], "image": main["image"], "imageID": "", "ready": ready, "restartCount": restarts, "state": state}

    @staticmethod
    def _ready(value):
        return {"type": "Ready", "status": "True" if value else "False"}

    def _patch(self, name, status):
        self._api.merge(f"{PODS}/{name}/status", {"status": status})
