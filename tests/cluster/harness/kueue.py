"""Kueue's program beside a control plane, with its webhooks by URL, and a queue of so many CPU."""

import base64
import json
import pathlib
import shutil

import yaml

from . import places
from .control_plane import free_port
from .wait import wait_for

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
# Without a queue of these integrations Kueue serves no webhook for them.
_SERVED = ("", "kueue.x-k8s.io")


class Kueue:
    def __init__(self, plane, api):
        self._plane = plane
        self._api = api
        self._folder = plane.folder / "kueue"
        self._config = places.CLUSTER / "share/kueue"
        self._ports = {name: free_port("127.0.0.1") for name in ("webhook", "health")}

    def start(self, seconds=60.0):
        """Until its webhooks answer."""
        certificates = self._folder / "etc/kueue/metrics/certs"
        certificates.mkdir(parents=True)
        certificate, key = self._plane.authority.issue("kueue", "kueue", alternative_names=["IP:127.0.0.1"])
        shutil.copy(certificate, certificates / "tls.crt")
        shutil.copy(key, certificates / "tls.key")
        for path in sorted((self._config / "crd/bases").glob("*.yaml")):
            self._api.create(_CRDS, self._crd(path))
        wait_for("Kueue's kinds to be served", self._established)
        self._api.create("/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
        configuration = self._folder / "configuration.yaml"
        configuration.write_text(json.dumps(self._configuration(certificates)))
        # It reads the certificate of its metrics from /etc/kueue alone: it sees an /etc of its own.
        mount = f"mount -t overlay -o lowerdir={self._folder / 'etc'}:/etc kueue /etc && exec \"$@\""
        self._plane.processes.start("kueue", ["unshare", "--mount", "sh", "-c", mount, "kueue", places.BIN / "kueue", f"--config={configuration}",
                                              "--feature-gates=VisibilityOnDemand=false"],
                                    {"KUBECONFIG": str(self._plane.kubeconfig)})
        self._add_webhooks()
        wait_for("Kueue to take a flavor", lambda: self._flavor() is not None, seconds)

    def queue(self, name, cpu):
        """A LocalQueue of the namespace default, whose ClusterQueue has so many CPU; jobs of higher priority preempt."""
        resources = [{"name": "cpu", "nominalQuota": str(cpu)}, {"name": "memory", "nominalQuota": "64Gi"}]
        self._api.create(CLUSTER_QUEUES, {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
                     "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "any", "resources": resources}]}]}})
        self._api.create("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": name}})

        def active():
            conditions = self._api.get(f"{CLUSTER_QUEUES}/{name}").get("status", {}).get("conditions", [])
            return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

        wait_for(f"queue {name} to be active", active)

    def priority(self, name, value):
        self._api.create("/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value})

    def _flavor(self):
        self._plane.processes.check()
        return self._api.create("/apis/kueue.x-k8s.io/v1beta2/resourceflavors", {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "any"}})

    def _established(self):
        def holds(crd):
            return any(each["type"] == "Established" and each["status"] == "True" for each in crd.get("status", {}).get("conditions") or [])

        return all(holds(crd) for crd in self._api.list(_CRDS)) and self._api.list(CLUSTER_QUEUES) == []

    def _configuration(self, certificates):
        return {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "leaderElection": {"leaderElect": False},
                "health": {"healthProbeBindAddress": f"127.0.0.1:{self._ports['health']}"}, "metrics": {"bindAddress": "0"},
                "webhook": {"host": "127.0.0.1", "port": self._ports["webhook"], "certDir": str(certificates)},
                "internalCertManagement": {"enable": False}, "clientConnection": {"qps": 200, "burst": 400},
                "integrations": {"frameworks": ["pod"]}}

    def _client(self, path):
        bundle = base64.b64encode(pathlib.Path(self._plane.authority.certificate).read_bytes()).decode()
        return {"url": f"https://127.0.0.1:{self._ports['webhook']}{path}", "caBundle": bundle}

    def _crd(self, path):
        crd = yaml.safe_load(path.read_text())
        patches = yaml.safe_load((self._config / "crd/kustomization.yaml").read_text())["patches"]
        if any(each["path"] == f"patches/webhook_in_{crd['spec']['names']['plural']}.yaml" for each in patches):
            crd["spec"]["conversion"] = {"strategy": "Webhook",
                                         "webhook": {"clientConfig": self._client("/convert"), "conversionReviewVersions": ["v1"]}}
        return crd

    def _add_webhooks(self):
        for configuration in yaml.safe_load_all((self._config / "webhook/manifests.yaml").read_text()):
            webhooks = [each for each in configuration["webhooks"] if each["rules"][0]["apiGroups"][0] in _SERVED]
            for each in webhooks:
                each["clientConfig"] = self._client(each["clientConfig"]["service"]["path"])
            configuration["webhooks"] = webhooks
            plural = configuration["kind"].lower() + "s"
            self._api.create(f"/apis/admissionregistration.k8s.io/v1/{plural}", configuration)
