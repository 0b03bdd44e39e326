"""What the cluster tests need of a machine, and what it lacks."""

import os
import shutil
import subprocess

from . import places

_PARTS = {"control-plane": ["etcd", "kubernetes"], "node": ["etcd", "kubernetes", "containerd", "coredns", "helm4", "helm3"]}
_NODE_PROGRAMS = ("runc", "iptables", "conntrack", "ip", "unshare", "nsenter", "buildah", "mmdebstrap", "gcc")


def missing(kind):
    """For kind "control-plane" or "node": sentences that each name a lack and how to mend it; empty when the tests can run."""
    lacks = [] if shutil.which("openssl") else ["the program openssl (scripts/setup.sh installs it)"]
    built = subprocess.run([places.REPOSITORY / "scripts/cluster/build.sh", "--check", *_PARTS[kind]], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        lacks.append((built.stdout + built.stderr).strip())
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
