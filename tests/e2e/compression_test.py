"""strategy.parameterServer.compression: bfloat16. Half the bytes, the accuracy of float32, the same bits in every layout.

    python3 tests/e2e/compression_test.py
"""
import pathlib
import shutil
import subprocess
import unittest

from precision_test import TEXT
from trainyard import ROOT, TRAINER, JobTest, job_file, safetensors

FIELD = "training.strategy.parameterServer.compression"
COMPRESSED = FIELD + "=bfloat16"
GRPC = "training.resources.sharedMemory=false"


class Compression(JobTest):
    def run_job(self, *overrides, workers=2, ps=1, mode="sync", steps=12, output=None):
        job = job_file(self.folder.name, workers=workers, ps=ps, mode=mode, steps=steps, batch=16)
        run = self.launch(job, overrides, output=output)
        return run, self.succeed(run)

    def digest(self, *overrides, **layout):
        return self.run_job(*overrides, **layout)[1]["parametersSha256"]

    def test_the_bits_do_not_depend_on_servers_threads_and_the_way(self):
        for network in ((), TEXT):
            expected = self.digest(COMPRESSED, *network)
            for others, layout in (((), {}), ((), {"ps": 3}), (("training.resources.threads=3",), {"ps": 2}), ((GRPC,), {"ps": 2})):
                with self.subTest(others=others, layout=layout, network=network):
                    self.assertEqual(self.digest(COMPRESSED, *network, *others, **layout), expected)
            with self.subTest(network=network):
                self.assertNotEqual(self.digest(*network), expected)
                self.assertEqual(self.digest(*network), self.digest(FIELD + "=none", *network))

    def test_digits_are_learnt_as_well_from_half_the_bytes(self):
        seen = {}
        for compression in ("none", "bfloat16"):
            _, report = self.run_job(f"{FIELD}={compression}", "training.steps=150", "training.batchSize=32", "training.data.train.range=[0, 9000]",
                                     "training.data.eval.range=[9000, 10000]")
            # Worker 1 takes part in steps alone; the chief reads float32 for evaluations and checkpoints.
            worker = report["perWorker"][1]
            seen[compression] = (report["eval"]["accuracy"], worker["bytesSent"], worker["bytesReceived"], report["strategy"])
        accuracy, sent, received, strategy = zip(*seen.values())
        self.assertGreater(min(accuracy), 0.9)
        self.assertLess(abs(accuracy[1] - accuracy[0]), 0.015)
        self.assertAlmostEqual(sent[1] / sent[0], 0.5, delta=0.02)
        self.assertAlmostEqual(received[1] / received[0], 0.5, delta=0.02)
        self.assertEqual(strategy, ("parameterServer/sync", "parameterServer/sync, compression bfloat16"))

    def test_checkpoints_and_the_report_are_of_the_servers_float32(self):
        for mode in ("sync", "async"):
            with self.subTest(mode=mode):
                run, report = self.run_job(COMPRESSED, mode=mode)
                files = list(pathlib.Path(run.output).glob("checkpoints/step-*/*.safetensors"))
                values = [value for file in files for tensor in safetensors(file).values() for value in tensor if value != 0]
                odd = [value for value in values if float.hex(value).split("p")[0].rstrip("0").partition(".")[2][2:]]
                self.assertGreater(len(odd), len(values) / 2, "most are no bfloat16")
                # A run that has nothing left to do reports what it has read.
                _, again = self.run_job(COMPRESSED, mode=mode, output=run.output)
                self.assertEqual(again["parametersSha256"], report["parametersSha256"])
                self.assertEqual(again["eval"], report["eval"])

    def test_a_run_goes_on_from_a_checkpoint_the_same_way_each_time(self):
        first, _ = self.run_job(COMPRESSED, steps=8)
        copy = pathlib.Path(self.folder.name) / "copy"
        shutil.copytree(first.output, copy)
        resumed = [self.digest(COMPRESSED, steps=16, ps=ps, output=output) for ps, output in ((1, first.output), (2, copy))]
        self.assertEqual(resumed[0], resumed[1])

    def test_a_job_that_loses_replicas_ends_all_the_same(self):
        for role in ("worker", "ps"):
            with self.subTest(role=role):
                run = self.launch(job_file(self.folder.name, workers=2, ps=2, mode="sync", steps=300, batch=16, checkpoint_every=50), (COMPRESSED,))
                run.await_step(100)
                run.kill(role, 1)
                self.assertEqual(self.succeed(run)["steps"], 300)

    def test_an_all_reduce_refuses_it_by_name(self):
        job = job_file(self.folder.name, workers=2, mode="allReduce")
        done = subprocess.run([TRAINER, "launch", str(job), "--output", self.folder.name + "/out", "--set",
                               "training.strategy.allReduce.compression=bfloat16"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('strategy.allReduce.compression: found "bfloat16", expected none', done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
