"""Checkpoints on a file system that takes 2 MB a second: rounds go on while they are written, and nobody is called lost."""
import os
import pathlib
import time
import unittest
from unittest import mock

from trainyard import JobTest, job_file

SLOW_DISK = pathlib.Path(os.environ["TRAINYARD_BUILD"]) / "tests/libslow_disk.so"
BYTES_A_SECOND = 2_000_000
MODEL = "training.model={input: {shape: [28, 28, 1]}, layers: [flatten, {dense: {units: 1000}}, {dense: {units: 10}}], loss: softmaxCrossEntropy}"
STATE_BYTES = 2 * 4 * (784 * 1000 + 1000 + 1000 * 10 + 10)  # values and momentum: over three seconds of that disk
PATIENCE = ("training.timeouts.peer=2", "training.timeouts.silence=2")


class SlowDisk(JobTest):
    def launch_on(self, disk, mode, workers, ps):
        output = pathlib.Path(self.folder.name) / f"{mode}-{disk}"
        job = job_file(self.folder.name, mode=mode, workers=workers, ps=ps, steps=300, batch=64, checkpoint_every=100)
        slow = {"LD_PRELOAD": str(SLOW_DISK), "TRAINYARD_SLOW_FOLDER": str(output / "checkpoints"), "TRAINYARD_SLOW_BYTES_A_SECOND": str(BYTES_A_SECOND)}
        with mock.patch.dict(os.environ, slow if disk == "slow" else {}):
            return self.launch(job, (MODEL, *PATIENCE), output=output)

    def steps_during_the_first_save(self, run):
        """How many steps the other worker did while the first checkpoint was being written."""
        first = last = None
        end = time.monotonic() + 60
        while time.monotonic() < end and run.process.poll() is None:
            staged = list((run.output / "checkpoints").glob(".step-100.*"))
            progress = run.progress("worker", 1)
            if staged and progress:
                first = progress["step"] if first is None else first
                last = progress["step"]
            elif first is not None:
                break
        self.assertIsNotNone(first, f"no checkpoint was seen under way:\n{run.logs()}")
        return last - first

    def check(self, mode, ps):
        undisturbed = self.succeed(self.launch_on("fast", mode, 2, ps))
        start = time.monotonic()
        run = self.launch_on("slow", mode, 2, ps)
        steps = self.steps_during_the_first_save(run)
        report = self.succeed(run)
        self.assertGreater(time.monotonic() - start, 3 * STATE_BYTES / BYTES_A_SECOND, "the disk was not slow")
        self.assertGreaterEqual(steps, 20, run.logs())
        self.assertEqual(report["restarts"], [])
        self.assertEqual(report["redone"], [])
        self.assertEqual(report["parametersSha256"], undisturbed["parametersSha256"])
        self.assertTrue((run.output / "checkpoints/step-300/manifest.json").exists())

    def test_rounds_of_servers_go_on(self):
        self.check("sync", ps=1)

    def test_rounds_of_an_all_reduce_go_on(self):
        self.check("allReduce", ps=0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
