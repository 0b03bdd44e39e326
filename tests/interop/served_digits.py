"""A short training of digits that `serve` answers for, and what `predict` says of a few pictures: what the clients' tests share."""
import json
import pathlib
import subprocess
import sys
import tempfile

import in_venv
import numpy

sys.path.insert(0, str(in_venv.ROOT / "tests/e2e"))
from serving import Server  # noqa: E402
from trainyard import TRAINER, Run, job_file  # noqa: E402

EXAMPLES = 5


def start(case):
    """Gives the class `case` its `folder`, `images` (EXAMPLES, 28, 28, 1), `expected` probabilities (EXAMPLES, 10) and `server`, which is ready."""
    folder = tempfile.TemporaryDirectory(prefix="trainyard-serve-")
    case.addClassCleanup(folder.cleanup)
    case.folder = pathlib.Path(folder.name)
    run = Run(job_file(case.folder, steps=20), output=case.folder / "out").succeed()
    case.images = numpy.random.default_rng(1).integers(0, 256, (EXAMPLES, 28, 28, 1), numpy.uint8)
    numpy.save(case.folder / "x.npy", case.images)
    said = subprocess.run([TRAINER, "predict", run.output, case.folder / "x.npy", "--json", "--top", "10"],
                          cwd=in_venv.ROOT, capture_output=True, text=True, check=True).stdout
    case.expected = numpy.zeros((EXAMPLES, 10), numpy.float32)
    for row, line in zip(case.expected, map(json.loads, said.splitlines()), strict=True):
        for entry in line["top"]:
            row[entry["classNumber"]] = entry["probability"]
    case.server = Server(run.output, case.folder / "serve.log")
    case.addClassCleanup(case.server.close)
    case.server.await_ready()
