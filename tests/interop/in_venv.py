"""Import first: goes on in the Python environment of the requirements.txt beside the program, making it if need be."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
_MARK = "TRAINYARD_IN_VENV"

if os.environ.get(_MARK) != "1":
    python = subprocess.run([ROOT / "scripts/venv.sh", pathlib.Path(sys.argv[0]).resolve().parent / "requirements.txt"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    os.execve(python, [python, *sys.argv], {**os.environ, _MARK: "1"})
