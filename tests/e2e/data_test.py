"""Data sets and input pipelines as a user meets them: conversion to a store, training from it,
stages in a job file and the report of them."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from trainyard import ROOT, TRAINER, Run, job_file


def data_command(*arguments):
    return subprocess.run([TRAINER, "data", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120)


class Stores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-data-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.job = job_file(self.folder, steps=12)
        self.store = self.folder / "store"
        result = data_command("convert", "--job", self.job, "--out", self.store, "--shards", 4)
        self.assertEqual(result.returncode, 0, result.stderr)

    def launch(self, name, *overrides):
        run = Run(self.job, output=self.folder / name, overrides=overrides)
        self.assertEqual(run.wait(), 0, run.text + run.logs())
        return json.loads((run.output / "report.json").read_text())

    def from_store(self, pipeline=None):
        stages = "" if pipeline is None else ", pipeline: " + pipeline
        return "training.data={format: store, dir: %s, train: {}, eval: {}%s}" % (self.store, stages)

    def test_training_from_a_store_gives_the_same_parameters(self):
        files, store = self.launch("files"), self.launch("fromstore", self.from_store())
        self.assertEqual(store["parametersSha256"], files["parametersSha256"])
        self.assertEqual(store["eval"], files["eval"])

    def test_caches_and_prefetch_change_nothing_of_what_is_learnt(self):
        plain = self.launch("plain")
        kept = self.launch("kept", self.from_store("[read, {cache: {file: %s}}, shuffle, batch, {prefetch: {depth: auto}}]" % (self.folder / "cache")))
        self.assertEqual(kept["parametersSha256"], plain["parametersSha256"])
        self.assertTrue((self.folder / "cache/train/manifest.json").exists())

    def test_time_by_stage_is_told(self):
        report = self.launch("staged", self.from_store("[read, shuffle, {map: {normalize: {mean: 0.13, std: 0.31}}}, batch, {prefetch: {depth: 2}}]"))
        self.assertEqual(set(report["perWorker"][0]["inputStages"]), {"order", "read", "map"})
        events = json.loads((self.folder / "staged/trace.json").read_text())
        rows = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertLessEqual({"input: order", "input: read", "input: map"}, rows)

    def test_inspect_and_verify_say_what_a_store_is_worth(self):
        inspected = data_command("inspect", self.store / "train")
        self.assertIn("2048 examples in 4 shards", inspected.stdout)
        self.assertEqual(data_command("verify", self.store / "train").returncode, 0)
        shard = self.store / "train/shard-00002.bin"
        blob = bytearray(shard.read_bytes())
        blob[1000] ^= 1
        shard.write_bytes(blob)
        broken = data_command("verify", self.store / "train")
        self.assertEqual(broken.returncode, 1)
        self.assertIn("shard-00002.bin is damaged", broken.stderr)
        run = Run(self.job, output=self.folder / "damaged", overrides=[self.from_store(), "worker.restartPolicy=Never"])
        self.assertNotEqual(run.wait(), 0)
        self.assertIn("shard-00002.bin is damaged", run.text + run.logs())

    def test_a_store_is_never_written_over(self):
        again = data_command("convert", "--job", self.job, "--out", self.store)
        self.assertEqual(again.returncode, 1)
        self.assertIn("is there already", again.stderr)

    def test_bench_measures_the_pipeline_alone(self):
        result = data_command("bench", "--job", self.job, "--seconds", 0.2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"\d+ examples/s")
        self.assertRegex(result.stdout, r"read +\d")


if __name__ == "__main__":
    unittest.main()
