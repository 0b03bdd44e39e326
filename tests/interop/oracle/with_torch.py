"""Import first: goes on under PyTorch's own Python, or skips where there is none."""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
_MARK = "TRAINYARD_WITH_TORCH"


def skip(reason):
    """In CI a failure."""
    if os.environ.get("CI") == "true":
        sys.exit(reason)

    class Oracle(unittest.TestCase):
        def test_ops_compute_what_pytorch_computes(self):
            self.skipTest(reason)

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Oracle)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())


def start():
    told = subprocess.run([ROOT / "scripts/torch.sh"], capture_output=True, text=True)
    if told.returncode != 0:
        skip(f"no PyTorch: {' '.join(told.stderr.split())}")
    settings = dict(setting.split("=", 1) for setting in told.stdout.split())
    venv = subprocess.run([ROOT / "scripts/venv.sh", ROOT / "tests/interop/requirements.txt"], check=True, stdout=subprocess.PIPE, text=True)
    (site,) = pathlib.Path(venv.stdout.strip()).parents[1].glob("lib/python*/site-packages")
    settings["PYTHONPATH"] += f":{site}"  # safetensors; PyTorch's own NumPy comes first
    os.execve("/usr/bin/python3", ["/usr/bin/python3", *sys.argv], {**os.environ, **settings, _MARK: "1"})


if os.environ.get(_MARK) != "1":
    start()
