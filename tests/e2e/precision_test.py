"""training.precision: bfloat16. The same bits whatever the threads, devices, servers and strategy; what the job says of it.

    python3 tests/e2e/precision_test.py
"""
import pathlib
import subprocess
import unittest

from trainyard import ROOT, TRAINER, JobTest, job_file, safetensors

SYNC = "{parameterServer: {mode: sync}}"
BFLOAT16 = "training.precision=bfloat16"
LSTM = ("training.model={input: {shape: [10], vocabulary: 65}, layers: [{embedding: {outputDim: 24}}, {lstm: {units: 40, returnSequences: true}}, "
        "{dense: {units: 65}}], loss: softmaxCrossEntropy}")
TEXT = ("training.data={format: text, dir: examples/data/tinyshakespeare, tokens: characters, train: {files: [input.txt]}}", LSTM, "training.batchSize=4")


class Precision(JobTest):
    def run_job(self, *overrides, workers=1, devices=1, strategy="{local: {}}", servers=0, threads=1):
        run = self.launch(job_file(self.folder.name, steps=12, batch=16),
                          (f"spec.worker.replicas={workers}", f"training.devices={devices}", f"spec.ps={{replicas: {servers}}}",
                           f"training.strategy={strategy}", f"training.resources.threads={threads}", *overrides))
        return run, self.succeed(run)

    def digest(self, *overrides, **layout):
        return self.run_job(*overrides, **layout)[1]["parametersSha256"]

    def test_the_bits_do_not_depend_on_threads_servers_and_strategy(self):
        for network in ((), TEXT):
            expected = self.digest(BFLOAT16, *network, workers=2, strategy=SYNC, servers=1)
            for layout in ({"workers": 2, "strategy": SYNC, "servers": 1}, {"workers": 2, "strategy": SYNC, "servers": 3, "threads": 2},
                           {"workers": 2, "strategy": "{allReduce: {}}", "threads": 3}, {"devices": 2, "threads": 4}):
                with self.subTest(layout=layout, network=network):
                    self.assertEqual(self.digest(BFLOAT16, *network, **layout), expected)

    def test_the_report_and_the_log_say_what_ran(self):
        for precision in ("float32", "bfloat16"):
            run, report = self.run_job(f"training.precision={precision}")
            with self.subTest(precision=precision):
                self.assertEqual(report["precision"], precision)
                self.assertIn(f"{precision} by {report['kernels']}", run.logs())

    def test_auto_says_what_it_took_and_why_and_has_the_bits_of_what_it_took(self):
        run, report = self.run_job("training.precision=auto")
        self.assertIn(f"precision: auto takes {report['precision']}: {report['precisionReason']}", run.logs())
        self.assertRegex(report["precisionReason"], "^(forward and backward take .* ms in bfloat16 by|this processor has no kernels for bfloat16)")
        self.assertEqual(report["parametersSha256"], self.digest(f"training.precision={report['precision']}"))

    def test_float32_is_the_default_and_has_other_bits(self):
        default = self.digest()
        self.assertEqual(default, self.digest("training.precision=float32"))
        self.assertNotEqual(default, self.digest(BFLOAT16))

    def test_checkpoints_keep_what_bfloat16_does_not_hold(self):
        run, _ = self.run_job(BFLOAT16)
        files = list(pathlib.Path(run.output).glob("checkpoints/*/*.safetensors"))
        self.assertTrue(files)
        values = [value for file in files for tensor in safetensors(file).values() for value in tensor]
        odd = [value for value in values if value != 0 and float.hex(value).split("p")[0].rstrip("0").partition(".")[2][2:]]
        self.assertGreater(len(odd), len(values) / 2)

    def test_an_unknown_precision_is_refused_by_name(self):
        job = job_file(self.folder.name)
        done = subprocess.run([TRAINER, "launch", str(job), "--output", self.folder.name + "/out", "--set", "training.precision=fp8"], cwd=ROOT,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('training.precision: found "fp8", expected one of float32, bfloat16, float16, tf32, auto', done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
