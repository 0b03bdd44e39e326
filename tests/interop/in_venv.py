"""Import first: goes on in the Python environment of this folder's requirements.txt, making it if need be."""
import os
import pathlib
import subprocess
import sys

_FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = _FOLDER.parents[1]
_MARK = "TRAINYARD_IN_VENV"

if os.environ.get(_MARK) != "1":
    python = subprocess.run([ROOT / "scripts/venv.sh", _FOLDER / "requirements.txt"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    os.execve(python, [python, *sys.argv], {**os.environ, _MARK: "1"})
