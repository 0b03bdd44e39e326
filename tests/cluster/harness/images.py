"""Builds the images of the tests with buildah, without any registry, and leaves them as archives that a node imports.

The storage of buildah lies in the cache, apart from the machine's own.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile

from . import places

BASE = "docker.io/library/debian:bookworm-slim"
PAUSE = "localhost/pause:1"
OPERATOR = "docker.io/trainyard/operator:0.1"
TRAINER = "docker.io/trainyard/trainer:0.1"
CUDA_TRAINER = f"{TRAINER}-cuda"
_FOLDER = places.CACHE / "cluster" / "images"


def _run(*argv, **options):
    done = subprocess.run([str(part) for part in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))} failed with status {done.returncode}:\n" + "\n".join(done.stdout.splitlines()[-30:]))
    return done.stdout


def _buildah(*argv):
    storage = ["--root", _FOLDER / "overlay", "--runroot", _FOLDER / "run", "--storage-driver", "overlay"]
    return _run("buildah", *storage, *argv, env={**os.environ, "BUILDAH_ISOLATION": "chroot"})


def _exists(image):
    return bool(_buildah("images", "--quiet", "--filter", f"reference={image}").strip())


def size_in_bytes(image):
    """What all layers of the image take together, uncompressed."""
    container = _buildah("from", "--pull-never", image).strip()
    try:
        mount = _buildah("mount", container).strip()
        return int(_run("du", "-sb", "--one-file-system", mount).split()[0])
    finally:
        _buildah("rm", container)


def _archive(image):
    """Pushes the image into an archive and returns its path; an archive of the same image id is kept."""
    identity = _buildah("images", "--quiet", "--no-trunc", image).strip().splitlines()[0].removeprefix("sha256:")
    path = _FOLDER / f"{image.rsplit('/', 1)[1].replace(':', '-')}-{identity[:16]}.tar"
    if not path.exists():
        for old in _FOLDER.glob(f"{image.rsplit('/', 1)[1].replace(':', '-')}-*.tar"):
            old.unlink()
        unfinished = path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        _buildah("push", image, f"docker-archive:{unfinished}:{image}")
        unfinished.rename(path)
    return path


def base():
    """Makes the image that the Dockerfiles start from out of Debian's packages, under the name it has in the registry. Waits where another
    process makes it."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _exists(BASE):
            _make_base()


def _make_base():
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        root = pathlib.Path(folder) / "root.tar"
        _run("mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
             "--dpkgopt=path-exclude=/usr/share/locale/*", "bookworm", root)
        container = _buildah("from", "scratch").strip()
        _buildah("add", container, root, "/")
        _buildah("config", "--cmd", "/bin/bash", container)
        _buildah("commit", "--rm", container, BASE)


def pause():
    """The archive of the image that holds a pod's namespaces: one static program that waits."""
    if not _exists(PAUSE):
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
            source = pathlib.Path(__file__).with_name("pause.c")
            _run("gcc", "-Os", "-static", "-s", "-o", f"{folder}/pause", source)
            (pathlib.Path(folder) / "Dockerfile").write_text('FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n')
            _buildah("bud", "--quiet", "--tag", PAUSE, folder)
    return _archive(PAUSE)


def _forget_old_layers(kept=60):
    """Every build leaves its intermediate images for the next one; when they are many, all go."""
    if len(_buildah("images", "--all", "--quiet").split()) > kept:
        _buildah("rmi", "--prune", "--force")


def commit():
    done = subprocess.run(["git", "-C", places.REPOSITORY, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def product(name, image, binary, cuda=False):
    """Builds Dockerfile.<name> around a program built here (see the head of that file) and returns the archive. cuda: with the libraries for GPUs."""
    base()
    _forget_old_layers()
    folder = places.REPOSITORY / "dist" / name
    shutil.rmtree(folder, ignore_errors=True)
    _run(places.REPOSITORY / "scripts/images/collect.sh", binary, folder)
    if cuda:
        _run(places.REPOSITORY / "scripts/images/collect-cuda.sh", folder)
    _buildah("bud", "--quiet", "--layers", "--pull-never", "--network=host", "--build-arg", f"PREBUILT=dist/{name}", "--build-arg", f"COMMIT={commit()}",
             "--file", places.REPOSITORY / f"Dockerfile.{name}", "--tag", image, places.REPOSITORY)
    return _archive(image)


def example(name):
    """Builds examples/frameworks/NAME/Dockerfile under the name that its job file has, and returns the archive."""
    base()
    image = f"docker.io/trainyard/{name}:0.1"
    _buildah("bud", "--quiet", "--layers", "--pull-never", "--network=host", "--file", places.REPOSITORY / f"examples/frameworks/{name}/Dockerfile",
             "--tag", image, places.REPOSITORY)
    return _archive(image)


def operator(binary):
    return product("operator", OPERATOR, binary)


def trainer(binary):
    return product("trainer", TRAINER, binary)


def cuda_trainer(binary):
    """The program must have been built with CUDA. The image is 1.1 GB larger."""
    return product("trainer", CUDA_TRAINER, binary, cuda=True)
