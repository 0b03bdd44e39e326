"""One real node: containerd, kubelet, kube-proxy and cluster DNS, as processes inside the sandbox."""

import json
import pathlib
import subprocess

from . import places, sandbox
from .wait import wait_for

NAME = "node-0"
DNS_ADDRESS = "10.96.0.10"
POD_RANGE = "10.244.0.0/24"
_RUN = pathlib.Path("/run/trainyard")
SOCKET = _RUN / "containerd.sock"


def import_image(archive):
    """Loads an image archive into the node's containerd."""
    done = subprocess.run([places.BIN / "ctr", "--address", SOCKET, "-n", "k8s.io", "images", "import", "--snapshotter=overlayfs", archive],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"importing {archive} failed: {done.stderr.strip()}")


class Node:
    """Start() leaves a Ready node with working services and DNS. Belongs to a ControlPlane listening on the sandbox's address."""

    def __init__(self, control_plane, pause_archive):
        self._plane = control_plane
        self._folder = control_plane.folder / "node"
        self._pause_archive = pause_archive

    def start(self, seconds=90.0):
        if not sandbox.inside():
            raise RuntimeError("a node may only be started inside the sandbox (harness/sandbox.py)")
        self._folder.mkdir(parents=True)
        _RUN.mkdir(parents=True, exist_ok=True)
        self._start_containerd()
        self._start_kubelet()
        self._start_kube_proxy()
        self._start_dns()
        api = self._plane.api()
        wait_for("the node to be Ready", lambda: self._check() and self._ready(api), seconds)
        api.close()
        return self

    def _check(self):
        self._plane.processes.check()
        return True

    @staticmethod
    def _ready(api):
        node = api.find(f"/api/v1/nodes/{NAME}")
        conditions = node["status"].get("conditions", []) if node else []
        ready = [condition for condition in conditions if condition["type"] == "Ready"]
        assert ready and ready[0]["status"] == "True", ready
        return True

    def _write(self, name, content):
        path = self._folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return path

    def _start_containerd(self):
        network = self._folder / "cni"
        network.mkdir()
        (network / "10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "1.0.0", "name": "pods", "plugins": [
                {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": POD_RANGE}]], "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        configuration = self._write("containerd.toml", f"""
version = 3
root = "{self._folder}/containerd"
state = "{_RUN}/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing", "io.containerd.snapshotter.v1.btrfs",
                    "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs"]
[grpc]
address = "{SOCKET}"
[plugins.'io.containerd.internal.v1.opt']
path = "{_RUN}/opt"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "localhost/pause:1"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{network}"
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
""")
        self._plane.processes.start("containerd", [places.BIN / "containerd", "--config", configuration],
                                    {"PATH": f"{places.BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})

        def answers():
            self._check()
            return subprocess.run([places.BIN / "ctr", "--address", SOCKET, "version"], capture_output=True, check=False).returncode == 0

        wait_for("containerd to answer", answers, 30.0)
        import_image(self._pause_archive)

    def _start_kubelet(self):
        kubeconfig = self._plane.authority.kubeconfig(self._folder / "kubelet.kubeconfig", self._plane.server, "kubelet",
                                                      f"system:node:{NAME}", "system:nodes")
        resolver = self._write("resolv.conf", f"nameserver {DNS_ADDRESS}\n")
        configuration = self._write("kubelet.yaml", {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}, "x509": {"clientCAFile": str(self._plane.authority.certificate)}},
            "authorization": {"mode": "AlwaysAllow"},
            "address": sandbox.NODE_ADDRESS, "containerRuntimeEndpoint": f"unix://{SOCKET}", "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{sandbox.CGROUP}",
            "failCgroupV1": False, "failSwapOn": False, "enforceNodeAllocatable": [], "clusterDNS": [DNS_ADDRESS], "clusterDomain": "cluster.local",
            "resolvConf": str(resolver), "evictionHard": {"memory.available": "10Mi"}, "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99, "syncFrequency": "5s", "nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "5m", "maxPods": 60, "serializeImagePulls": False,
            "healthzPort": 0, "readOnlyPort": 0, "logging": {"verbosity": 1}})
        self._plane.processes.start("kubelet", [
            places.BIN / "kubelet", f"--config={configuration}", f"--kubeconfig={kubeconfig}", f"--hostname-override={NAME}",
            f"--node-ip={sandbox.NODE_ADDRESS}", "--root-dir=/var/lib/kubelet", f"--cert-dir={self._folder}/kubelet-pki"])

    def _start_kube_proxy(self):
        kubeconfig = self._plane.authority.kubeconfig(self._folder / "kube-proxy.kubeconfig", self._plane.server, "kube-proxy", "system:kube-proxy")
        self._plane.processes.start("kube-proxy", [
            places.BIN / "kube-proxy", f"--kubeconfig={kubeconfig}", "--proxy-mode=iptables", f"--cluster-cidr={POD_RANGE}",
            f"--hostname-override={NAME}", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s", "--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249"])

    def _start_dns(self):
        subprocess.run(["ip", "address", "add", f"{DNS_ADDRESS}/32", "dev", "lo"], check=True)
        corefile = self._write("Corefile", f""".:53 {{
    bind {DNS_ADDRESS}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {self._plane.kubeconfig}
        pods insecure
        ttl 1
    }}
}}
""")
        self._plane.processes.start("coredns", [places.BIN / "coredns", "-conf", corefile])

