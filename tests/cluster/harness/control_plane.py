"""etcd, kube-apiserver, kube-controller-manager and, where asked for, kube-scheduler and kwok's fake nodes, as processes of this machine."""

import contextlib
import dataclasses
import json
import pathlib
import random
import shutil
import socket

from . import places
from .certificates import Authority
from .kube import Api, ApiError
from .processes import Processes
from .wait import wait_for

SERVICE_RANGE = "10.96.0.0/16"


@dataclasses.dataclass
class Options:
    address: str = "127.0.0.1"      # where the API server listens
    port: int = 0                   # 0: any free one
    scheduler: bool = False
    high_limits: bool = False       # lift the client limits of controller-manager and scheduler, for load tests
    fake_nodes: int = 0             # nodes simulated by kwok; pods on them run at once and never end
    fake_cpu: int = 256             # of each of them
    feature_gates: str = ""         # of API server, controller manager and scheduler: "GangScheduling=true"
    runtime_config: str = ""        # API versions beside the default ones: "scheduling.k8s.io/v1alpha2=true"


def free_port(address, in_a_row=1):
    """A port that nothing uses, nor the `in_a_row` - 1 ports behind it.

    It lies below 32768, where the kernel begins to take the ports of outgoing connections (ip_local_port_range): no client can be on it when it is used.
    """
    for _ in range(100):
        first = random.randrange(15000, 32700)
        with contextlib.ExitStack() as probes:
            try:
                for port in range(first, first + in_a_row):
                    probes.enter_context(socket.socket()).bind((address, port))
            except OSError:
                continue
            return first
    raise RuntimeError(f"no {in_a_row} free ports in a row on {address} between 15000 and 32700, tried 100 times")


class ControlPlane:
    """Start() leaves a ready API server and `kubeconfig` in the folder; Stop() ends every process. The folder is the whole state."""

    def __init__(self, folder, options=None):
        self.folder = pathlib.Path(folder)
        self.options = options or Options()
        self.kubeconfig = self.folder / "kubeconfig"
        self.processes = None
        self.authority = None
        self.server = None

    def start(self, seconds=90.0):
        if self.folder.exists():
            Processes(self.folder).stop_all()
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        self.processes = Processes(self.folder)
        self.authority = Authority(self.folder / "pki")
        port = self.options.port or free_port(self.options.address)
        self.server = f"https://{self.options.address}:{port}"
        self._start_etcd()
        self._start_apiserver(port)
        api = self.api()
        self._wait("the API server to be ready", lambda: self._ready(api), seconds)
        self._start_controller_manager()
        if self.options.scheduler:
            self._start_scheduler()
        self._wait("the default service account", lambda: api.exists("/api/v1/namespaces/default/serviceaccounts/default"), seconds)
        if self.options.fake_nodes:
            self._start_fake_nodes(api)
        api.close()
        return self

    def api(self):
        return Api(self.kubeconfig)

    def stop(self):
        if self.folder.exists():
            (self.processes or Processes(self.folder)).stop_all(seconds=0.5)

    def remove(self):
        """Stops everything and removes the folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self, name):
        """Stops and starts one program again with the same arguments; one that has ended by itself is started."""
        self.processes.kill(name)
        {"etcd": self._start_etcd_again, "kube-apiserver": self._start_apiserver_again,
         "kube-controller-manager": self._start_controller_manager, "kube-scheduler": self._start_scheduler}[name]()

    def revive(self):
        """Starts again the controller manager and the scheduler if they have ended by themselves, as a kubelet does with static pods; their names.

        The scheduler ends itself when it sees a pod on another node than before, which happens when the API server is killed.
        """
        ended = [name for name in ("kube-controller-manager", "kube-scheduler") if self.processes.pid(name) and not self.processes.alive(name)]
        for name in ended:
            self.restart(name)
        return ended

    def _wait(self, what, condition, seconds):
        def checked():
            self.processes.check()
            return condition()

        wait_for(what, checked, seconds)

    @staticmethod
    def _ready(api):
        try:
            return api.text("GET", "/readyz") == "ok"
        except ApiError:
            return False

    def _start_etcd(self):
        # etcd never leaves loopback, and only this API server knows its port.
        self._etcd_url = f"http://127.0.0.1:{free_port('127.0.0.1')}"
        self._etcd_peer = f"http://127.0.0.1:{free_port('127.0.0.1')}"
        self._start_etcd_again()

    def _start_etcd_again(self):
        self.processes.start("etcd", [
            places.BIN / "etcd", "--name=test", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level=warn",
            "--listen-client-urls", self._etcd_url, "--advertise-client-urls", self._etcd_url,
            "--listen-peer-urls", self._etcd_peer, "--initial-advertise-peer-urls", self._etcd_peer, "--initial-cluster", f"test={self._etcd_peer}"])

    def _start_apiserver(self, port):
        address = self.options.address
        names = ["IP:10.96.0.1", "IP:127.0.0.1", "DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
                 "DNS:kubernetes.default.svc.cluster.local"]
        if address != "127.0.0.1":
            names.append(f"IP:{address}")
        certificate, key = self.authority.issue("apiserver", "kube-apiserver", alternative_names=names)
        kubelet_certificate, kubelet_key = self.authority.issue("apiserver-kubelet", "kube-apiserver", "system:masters")
        self.authority.key_pair("service-account")
        self.authority.kubeconfig(self.kubeconfig, self.server, "admin", "admin", "system:masters")
        self._apiserver = [
            places.BIN / "kube-apiserver", f"--etcd-servers={self._etcd_url}", f"--bind-address={address}", f"--secure-port={port}",
            f"--service-cluster-ip-range={SERVICE_RANGE}", "--authorization-mode=Node,RBAC", "--allow-privileged",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--client-ca-file={self.authority.certificate}",
            f"--kubelet-client-certificate={kubelet_certificate}", f"--kubelet-client-key={kubelet_key}",
            "--kubelet-preferred-address-types=InternalIP", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.authority.path('service-account.pub')}",
            f"--service-account-signing-key-file={self.authority.path('service-account.key')}"]
        if address == "127.0.0.1":
            # Without a node nobody reaches the API server as a service; loopback may not be advertised.
            self._apiserver += ["--endpoint-reconciler-type=none", "--advertise-address=192.0.2.1"]
        else:
            self._apiserver += [f"--advertise-address={address}"]
        if self.options.high_limits:
            self._apiserver += ["--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"]
        if self.options.feature_gates:
            self._apiserver += [f"--feature-gates={self.options.feature_gates}"]
        if self.options.runtime_config:
            self._apiserver += [f"--runtime-config={self.options.runtime_config}"]
        self._start_apiserver_again()

    def _start_apiserver_again(self):
        self.processes.start("kube-apiserver", self._apiserver)

    def _start_controller_manager(self):
        kubeconfig = self.authority.kubeconfig(self.folder / "controller-manager.kubeconfig", self.server, "controller-manager",
                                               "system:kube-controller-manager")
        argv = [places.BIN / "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0",
                "--use-service-account-credentials", f"--service-account-private-key-file={self.authority.path('service-account.key')}",
                f"--root-ca-file={self.authority.certificate}"]
        if self.options.feature_gates:
            argv += [f"--feature-gates={self.options.feature_gates}"]
        if self.options.high_limits:
            argv += ["--kube-api-qps=2000", "--kube-api-burst=4000", "--concurrent-gc-syncs=50"]
        self.processes.start("kube-controller-manager", argv)

    def _start_scheduler(self):
        kubeconfig = self.authority.kubeconfig(self.folder / "scheduler.kubeconfig", self.server, "scheduler", "system:kube-scheduler")
        configuration = self.folder / "scheduler.yaml"
        limits = {"qps": 2000, "burst": 4000} if self.options.high_limits else {"qps": 50, "burst": 100}
        configuration.write_text(json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig), **limits}}))
        gates = [f"--feature-gates={self.options.feature_gates}"] if self.options.feature_gates else []
        self.processes.start("kube-scheduler", [places.BIN / "kube-scheduler", f"--config={configuration}", "--secure-port=0", *gates])

    def _start_fake_nodes(self, api):
        self.processes.start("kwok", [places.BIN / "kwok", f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=false",
                                      "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--server-address=",
                                      "--node-lease-duration-seconds=40", f"--config={pathlib.Path(__file__).with_name('fake_pods.yaml')}"])
        capacity = {"cpu": str(self.options.fake_cpu), "memory": "1Ti", "pods": "1000"}
        for number in range(self.options.fake_nodes):
            api.create("/api/v1/nodes", {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": f"fake-{number}", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"type": "kwok"}},
                "status": {"capacity": capacity, "allocatable": capacity}})
        self._wait("the fake nodes to be ready", lambda: all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            for node in api.list("/api/v1/nodes")), 60.0)
