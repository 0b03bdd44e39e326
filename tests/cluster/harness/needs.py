"""What the cluster tests need of a machine, and what it lacks."""

import os
import shutil
import subprocess

from . import places

_PARTS = {"control-plane": ["etcd", "kubernetes"], "node": ["etcd", "kubernetes", "containerd", "coredns", "helm4", "helm3"]}
_NODE_PROGRAMS = ("runc", "iptables", "conntrack", "ip", "unshare", "nsenter", "buildah", "mmdebstrap", "gcc")


def unbuilt(*parts):
    """The sentence that parts of build.sh are not built, in a list; empty when they are."""
    built = subprocess.run([places.REPOSITORY / "scripts/cluster/build.sh", "--check", *parts], capture_output=True, text=True, check=False)
    return [] if built.returncode == 0 else [(built.stdout + built.stderr).strip()]


def missing(kind):
    """For kind "control-plane" or "node": sentences that each name a lack and how to mend it; empty when the tests can run."""
    lacks = [] if shutil.which("openssl") else ["the program openssl (scripts/setup.sh installs it)"]
    lacks += unbuilt(*_PARTS[kind])
    if kind == "control-plane":
        return lacks
    if os.geteuid() != 0:
        lacks.append("root: a node makes namespaces, mounts and firewall rules")
    for program in _NODE_PROGRAMS:
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            lacks.append(f"the program {program} (scripts/setup.sh --cluster installs it)")
    if not os.path.exists("/usr/lib/cni/bridge"):
        lacks.append("the CNI plugins in /usr/lib/cni (scripts/setup.sh --cluster installs them)")
    return lacks
