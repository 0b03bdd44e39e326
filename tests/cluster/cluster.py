#!/usr/bin/env python3
"""Starts and stops the clusters of the tests by hand, and for benchmarks. See docs/cluster.md.

  cluster.py up control-plane [--name N] [--scheduler] [--high-limits] [--fake-nodes N]
  cluster.py up node [--name N] [--image ARCHIVE ...]
  cluster.py enter [--name N] COMMAND ...      runs a command inside a node's sandbox, with KUBECONFIG and PATH set
  cluster.py down [--name N]
  cluster.py missing control-plane|node        says what this machine lacks; exit status 1 if anything
  cluster.py base-image                        makes the image that the Dockerfiles start from, where it is not there
  cluster.py cuda-image                        makes the trainer's image for GPUs of the program in build/release; prints its archive, for up node
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness import images, needs, places, sandbox  # noqa: E402
from harness.control_plane import ControlPlane, Options  # noqa: E402
from harness.node import Node, import_image  # noqa: E402
from harness.processes import Processes  # noqa: E402
from harness.wait import wait_for  # noqa: E402


def _holder(folder):
    """The processes outside of the sandbox: only the one that holds it."""
    return Processes(folder.with_name(folder.name + ".holder"))


def _only_child(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]


def up_control_plane(arguments):
    plane = ControlPlane(places.state_folder(arguments.name), Options(scheduler=arguments.scheduler or arguments.fake_nodes > 0,
                                                                      high_limits=arguments.high_limits, fake_nodes=arguments.fake_nodes))
    try:
        plane.start()
    except BaseException:
        plane.stop()
        raise
    print(f"export KUBECONFIG={plane.kubeconfig}")


def up_node(arguments):
    folder = places.state_folder(arguments.name)
    down(arguments)
    holder = _holder(folder)
    archives = [images.pause(), *arguments.image]
    holder.start("sandbox", [sys.executable, __file__, "hold-node", "--name", arguments.name, *[f"--image={archive}" for archive in archives]])

    def ready():
        holder.check()
        return (folder / "ready").exists()

    try:
        wait_for("the node to be up", ready, 180.0)
    except BaseException:
        holder.stop_all()
        raise
    print(f"the node runs; use it with: scripts/cluster/enter.sh --name {arguments.name} kubectl get nodes")


def hold_node(arguments):
    """Outside: makes the sandbox around itself. Inside: starts everything and waits for the signal to end."""
    if not sandbox.inside():
        return sandbox.run_inside([sys.executable, __file__, *sys.argv[1:]])
    folder = places.state_folder(arguments.name)
    plane = ControlPlane(folder, Options(address=sandbox.NODE_ADDRESS, port=6443, scheduler=True)).start()
    Node(plane, arguments.image[0]).start()
    for archive in arguments.image[1:]:
        import_image(archive)
    (folder / "ready").touch()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


def down(arguments):
    folder = places.state_folder(arguments.name)
    held = folder.with_name(folder.name + ".holder")
    if held.exists():
        Processes(held).stop_all()
        shutil.rmtree(held)
    elif folder.exists():
        Processes(folder).stop_all()
    shutil.rmtree(folder, ignore_errors=True)


def enter(arguments):
    folder = places.state_folder(arguments.name)
    holder = _holder(folder).pid("sandbox") if folder.exists() else None
    if holder is None:
        sys.exit(f"enter: no node called {arguments.name} runs; start one with scripts/cluster/up.sh node")
    unshare = _only_child(holder)
    first = _only_child(unshare)
    os.environ.update(KUBECONFIG=str(folder / "kubeconfig"), PATH=f"{places.BIN}:{os.environ['PATH']}", TRAINYARD_CLUSTER_SANDBOX="1")
    os.execvp("nsenter", ["nsenter", "--target", first, "--net", "--mount", "--pid", "--wd=" + os.getcwd(), *arguments.command])


def cuda_image(_):
    print(images.cuda_trainer(places.REPOSITORY / "build/release/trainer/trainyard-trainer"))


def missing(arguments):
    lacks = needs.missing(arguments.kind)
    print("\n".join(lacks) or f"nothing is missing for the {arguments.kind} tests")
    return 1 if lacks else 0


def cluster_name(text):
    if not re.fullmatch("[a-z0-9][a-z0-9-]*", text):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected lower-case letters, digits and -")
    return text


def archive(text):
    if not pathlib.Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}, expected an archive of an image")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command_name", required=True)

    def command(name, function, default_name="hand"):
        sub = commands.add_parser(name)
        sub.set_defaults(function=function)
        sub.add_argument("--name", default=default_name, type=cluster_name)
        return sub

    sub = command("up", None)
    sub.add_argument("kind", choices=["control-plane", "node"])
    sub.add_argument("--scheduler", action="store_true")
    sub.add_argument("--high-limits", action="store_true")
    sub.add_argument("--fake-nodes", type=int, default=0)
    sub.add_argument("--image", action="append", default=[], type=archive)
    command("hold-node", hold_node).add_argument("--image", action="append", default=[], type=archive)
    command("down", down)
    command("enter", enter).add_argument("command", nargs=argparse.REMAINDER)
    command("base-image", lambda _: images.base())
    command("cuda-image", cuda_image)
    command("missing", missing).add_argument("kind", choices=["control-plane", "node"])
    arguments = parser.parse_args()
    if arguments.command_name == "up":
        lacks = needs.missing(arguments.kind)
        if lacks:
            sys.exit("cluster: cannot run here:\n  " + "\n  ".join(lacks))
        arguments.function = up_node if arguments.kind == "node" else up_control_plane
    return arguments.function(arguments)


if __name__ == "__main__":
    sys.exit(main())
