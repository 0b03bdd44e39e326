"""A private world for the node: its own network, mounts and processes.

A kubelet writes firewall rules, links, mounts and cgroups all over a machine. Here all of it but the cgroups lives in namespaces of the kernel
that end with the sandbox's first process, so nothing can be left behind and nothing of the machine's own is touched. The tests of the node run
inside, too: there is no way in from outside but `scripts/cluster/enter.sh`.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

NODE_ADDRESS = "172.31.0.1"
_MARK = "TRAINYARD_CLUSTER_SANDBOX"
_SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")


def inside():
    return os.environ.get(_MARK) == "1"


def run_inside(argv):
    """Runs argv in a new sandbox, waits for it and returns its exit status. Kernel settings that a kubelet changes are put back afterwards."""
    saved = {name: pathlib.Path("/proc/sys", name).read_text() for name in _SYSCTLS}
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, os.path.abspath(__file__), *map(str, argv)]
    child = subprocess.Popen(command, env={**os.environ, _MARK: "1"})
    previous = signal.signal(signal.SIGTERM, lambda *_: child.kill())
    try:
        return child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)
        remove_cgroups()
        for name, value in saved.items():
            path = pathlib.Path("/proc/sys", name)
            if path.read_text() != value:
                path.write_text(value)


CGROUP = "trainyard-test"


def cgroup_folders():
    """The sandbox's folder in each hierarchy (cgroup v1), or in the one there is (v2)."""
    base = pathlib.Path("/sys/fs/cgroup")
    if (base / "cgroup.controllers").exists():
        return [base / CGROUP]
    controllers = [line.split(":")[1].removeprefix("name=") or "unified" for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    return [base / controller / CGROUP for controller in controllers if (base / controller).is_dir()]


def remove_cgroups(seconds=5.0):
    """Removes the sandbox's cgroups; a killed process may hold its own for a moment longer."""
    deadline = time.monotonic() + seconds
    while any(not _removed(top) for top in cgroup_folders()) and time.monotonic() < deadline:
        time.sleep(0.05)


def _removed(top):
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return True


def _prepare():
    """The first thing that runs inside: links, routes and empty folders where a node writes."""

    def run(*argv):
        subprocess.run(argv, check=True)

    run("mount", "--make-rprivate", "/")
    run("mount", "--make-rshared", "/")
    for folder in ("/run", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers"):
        if not os.path.isdir(folder):
            os.makedirs(folder)
        run("mount", "-t", "tmpfs", "tmpfs", folder)
        run("mount", "--make-rshared", folder)
    os.makedirs("/run/lock", exist_ok=True)
    run("ip", "link", "set", "lo", "up")
    # A bridge without ports: an address and a way out that ends here.
    run("ip", "link", "add", "node0", "type", "bridge")
    run("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", "node0")
    run("ip", "link", "set", "node0", "up")
    run("ip", "route", "add", "default", "dev", "node0")
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for name in ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables"):
        path = pathlib.Path("/proc/sys/net/bridge", name)
        if path.exists():
            path.write_text("1")
    remove_cgroups()
    base = pathlib.Path("/sys/fs/cgroup")
    if (base / "cgroup.controllers").exists():
        for controller in (base / "cgroup.controllers").read_text().split():
            (base / "cgroup.subtree_control").write_text(f"+{controller}")
    for folder in cgroup_folders():
        folder.mkdir(exist_ok=True)
        if folder.parent.name == "cpuset":
            for name in ("cpuset.cpus", "cpuset.mems"):
                (folder / name).write_text((folder.parent / name).read_text())


def _first_process(argv):
    """Runs argv and reaps every orphan until it ends, as the first process of a world must."""
    child = subprocess.Popen(argv)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    _prepare()
    sys.exit(_first_process(sys.argv[1:]))
