"""The files of a run, read by other people's tools: TensorBoard's event reader, the safetensors
library, a JSON parser."""
import in_venv  # isort: skip  (starts over in the environment that has the readers)

import collections
import gzip
import hashlib
import io
import json
import math
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy
from PIL import Image
from safetensors.numpy import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

sys.path.insert(0, str(in_venv.ROOT / "tests/e2e"))
from trainyard import Run, job_file  # noqa: E402

STEPS = 40
WORKERS = 2
PROFILED = (20, 30)


class Artifacts(unittest.TestCase):
    """One short parameter-server job on the digits; every test reads what it left."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="trainyard-artifacts-")
        cls.addClassCleanup(cls.folder.cleanup)
        extra = "    summary: {everySteps: 5}\n    evaluate: {everyEpochs: 1}\n    profile: {steps: [20, 30]}\n"
        job = job_file(cls.folder.name, workers=WORKERS, ps=1, mode="sync", steps=STEPS, batch=32, checkpoint_every=20, extra=extra)
        job_run = Run(job, output=pathlib.Path(cls.folder.name) / "out").succeed()
        cls.output = job_run.output
        cls.events = {}
        for index in range(WORKERS):
            accumulator = EventAccumulator(str(cls.output / f"summaries/worker-{index}"), size_guidance={"images": 0, "histograms": 0, "scalars": 0})
            accumulator.Reload()
            cls.events[index] = accumulator

    def checkpoint(self):
        folders = sorted((self.output / "checkpoints").glob("step-*"), key=lambda folder: int(folder.name.split("-")[1]))
        return folders[-1]


class CurvesOfARunThatGoesOn(unittest.TestCase):
    def test_tensorboard_shows_no_step_twice(self):
        with tempfile.TemporaryDirectory(prefix="trainyard-artifacts-") as folder:
            job = job_file(folder, steps=30, batch=32, checkpoint_every=20, extra="    summary: {everySteps: 5}\n")
            output = Run(job, output=pathlib.Path(folder) / "out").succeed().output
            shutil.rmtree(output / "checkpoints/step-30")  # as if the run had been killed before it
            Run(job, output=output, overrides=["training.steps=40"]).succeed()
            accumulator = EventAccumulator(str(output / "summaries/worker-0"))
            accumulator.Reload()
            self.assertEqual([loss.step for loss in accumulator.Scalars("loss")], [1, 6, 11, 16, 21, 26, 31, 36])

    def test_a_kill_leaves_no_gap_before_the_checkpoint_and_every_evaluation_is_there(self):
        with tempfile.TemporaryDirectory(prefix="trainyard-artifacts-") as folder:
            extra = "    summary: {everySteps: 1}\n    evaluate: {everySteps: 50}\n"
            run = Run(job_file(folder, steps=300, batch=32, checkpoint_every=10, extra=extra), output=pathlib.Path(folder) / "out")
            run.await_step(120)
            run.kill("worker")
            accumulator = EventAccumulator(str(run.succeed().output / "summaries/worker-0"), size_guidance={"scalars": 0})
            accumulator.Reload()
            self.assertEqual([loss.step for loss in accumulator.Scalars("loss")], list(range(1, 301)))
            evaluations = json.loads((run.output / "checkpoints/evaluations.json").read_text())["evaluations"]
            told = [(accuracy.step, numpy.float32(accuracy.value)) for accuracy in accumulator.Scalars("eval/accuracy")]
            self.assertEqual(told, [(each["step"], numpy.float32(each["metrics"]["accuracy"])) for each in evaluations])
            self.assertGreater(len(told), 300 // 50)  # at the ends of epochs, too


class EventFiles(Artifacts):
    def test_every_file_begins_with_its_version_and_is_read_to_the_end(self):
        files = sorted((self.output / "summaries").glob("*/events.out.tfevents.*"))
        self.assertEqual(len(files), WORKERS + 1)  # and the server's
        for file in files:
            events = list(EventFileLoader(str(file)).Load())
            self.assertEqual(events[0].file_version, "brain.Event:2")
            self.assertGreater(len(events), 1)

    def test_each_replica_has_its_loss(self):
        for accumulator in self.events.values():
            losses = accumulator.Scalars("loss")
            self.assertEqual(len(losses), STEPS // 5)
            self.assertEqual(sorted({loss.step for loss in losses}), [loss.step for loss in losses])
            self.assertAlmostEqual(losses[0].value, math.log(10), delta=0.7)
            self.assertLess(losses[-1].value, losses[0].value)

    def test_the_graph_names_every_input(self):
        nodes = self.events[0].Graph().node
        names = {node.name for node in nodes}
        self.assertEqual(len(names), len(nodes))
        self.assertTrue(any("conv1" in name for name in names), names)
        for node in nodes:
            for source in node.input:
                self.assertIn(source.split(":")[0], names)
        self.assertTrue(any(node.attr["_output_shapes"].list.shape for node in nodes))

    def test_the_graph_has_the_time_of_each_node_that_ran(self):
        names = {node.name for node in self.events[0].Graph().node}
        tags = self.events[0].Tags()["run_metadata"]
        self.assertEqual(tags, [f"steps {PROFILED[0]}-{PROFILED[1] - 1}"])
        devices = self.events[0].RunMetadata(tags[0]).step_stats.dev_stats
        times = {node.node_name: node.all_end_rel_micros for device in devices for node in device.node_stats}
        self.assertTrue(times)
        self.assertLessEqual(set(times), names)
        self.assertTrue(all(micros > 0 for micros in times.values()))
        profile = json.loads((self.output / "profile.json").read_text())
        self.assertEqual(set(times), {row["name"] for row in profile["nodes"]})

    def test_every_replica_has_its_processor_and_memory_use(self):
        for replica in [f"worker-{index}" for index in range(WORKERS)] + ["ps-0"]:
            accumulator = EventAccumulator(str(self.output / f"summaries/{replica}"))
            accumulator.Reload()
            self.assertGreater(accumulator.Scalars("process/resident_mib")[-1].value, 1, replica)
            self.assertGreaterEqual(accumulator.Scalars("process/cpu_cores")[-1].value, 0, replica)

    def test_input_images_are_digits_of_the_training_set(self):
        packed = in_venv.ROOT / "examples/data/mnist/t10k-images-idx3-ubyte.gz"
        digits = numpy.frombuffer(gzip.decompress(packed.read_bytes()), numpy.uint8, offset=16).reshape(-1, 28, 28)
        tags = [tag for tag in self.events[0].Tags()["images"] if tag.startswith("input/")]
        self.assertGreater(len(tags), 0)
        for tag in tags:
            event = self.events[0].Images(tag)[0]
            pixels = numpy.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
            self.assertEqual(pixels.shape, (28, 28))
            self.assertTrue((digits == pixels).all(axis=(1, 2)).any(), tag)

    def test_histograms_count_every_element_of_a_parameter(self):
        tags = self.events[0].Tags()["histograms"]
        tensors = load_file(self.checkpoint() / "parameters.safetensors")
        for name, tensor in tensors.items():
            self.assertIn(name, tags)
            histogram = self.events[0].Histograms(name)[-1].histogram_value
            self.assertEqual(histogram.num, tensor.size)
            self.assertEqual(sum(histogram.bucket), tensor.size)


class OtherFiles(Artifacts):
    def test_the_checkpoint_is_what_its_manifest_says(self):
        folder = self.checkpoint()
        manifest = json.loads((folder / "manifest.json").read_text())
        self.assertEqual(manifest["step"], STEPS)
        for shard in manifest["shards"]:
            blob = (folder / shard["file"]).read_bytes()
            self.assertEqual(len(blob), shard["bytes"])
            self.assertEqual(hashlib.sha256(blob).hexdigest(), shard["sha256"])

    def test_safetensors_reads_the_parameters(self):
        tensors = load_file(self.checkpoint() / "parameters.safetensors")
        kernels = [tensor for name, tensor in tensors.items() if name.endswith("/kernel")]
        self.assertIn((5, 5, 1, 20), {kernel.shape for kernel in kernels})
        self.assertTrue(all(numpy.isfinite(tensor).all() for tensor in tensors.values()))

    def test_the_trace_has_the_profiled_steps_of_every_replica_in_order(self):
        events = json.loads((self.output / "trace.json").read_text())
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(set(names.values()), {f"worker-{index}" for index in range(WORKERS)} | {"ps-0"})
        timed = [event for event in events if event["ph"] != "M"]
        self.assertEqual([event["ts"] for event in timed], sorted(event["ts"] for event in timed))
        spans = [event for event in events if event["ph"] == "X"]
        self.assertTrue(all(span["dur"] >= 0 and span["ts"] >= 0 and span["pid"] in names for span in spans))
        for pid, name in names.items():
            if name.startswith("worker"):
                steps = [span["args"]["step"] for span in spans if span["name"] == "step" and span["pid"] == pid]
                self.assertEqual(steps, list(range(*PROFILED)))
        self.assertLessEqual({"step", "input", "compute", "operator", "communication"}, {span["cat"] for span in spans})

    def test_every_arrow_of_the_trace_goes_from_a_push_to_a_sum_to_a_pull(self):
        events = json.loads((self.output / "trace.json").read_text())
        arrows = collections.defaultdict(list)
        for event in events:
            if event["ph"] in "stf":
                arrows[event["id"]].append(event)
        pushed = [event for event in events if event["ph"] == "X" and event["name"].startswith("push ")]
        self.assertEqual(len(arrows), len(pushed))
        self.assertEqual(len(pushed) % (WORKERS * (PROFILED[1] - PROFILED[0])), 0)
        for ends in arrows.values():
            self.assertEqual([end["ph"] for end in ends], ["s", "t", "f"])
            self.assertLessEqual(ends[0]["ts"], ends[2]["ts"])
            self.assertEqual(ends[0]["pid"], ends[2]["pid"])
            for end, verb in zip(ends, ("push", "sum", "pull")):
                at = [span for span in events if span["ph"] == "X" and (span["pid"], span["tid"], span["ts"]) == (end["pid"], end["tid"], end["ts"])]
                self.assertIn(f"{verb} {end['name']}", [span["name"] for span in at])

    def test_the_operator_table_adds_up(self):
        profile = json.loads((self.output / "profile.json").read_text())
        self.assertEqual(profile["workerSteps"], WORKERS * (PROFILED[1] - PROFILED[0]))
        by_kind = sum(row["milliseconds"] for row in profile["operators"])
        self.assertAlmostEqual(by_kind, sum(row["milliseconds"] for row in profile["nodes"]), places=6)
        self.assertLessEqual(by_kind / profile["workerSteps"], profile["computeMilliseconds"])
        convolution = next(row for row in profile["operators"] if row["name"] == "Conv2d")
        self.assertGreater(convolution["flopsPerSecond"], 1e8)
        self.assertTrue(all(clock["aligned"] for clock in profile["clocks"]), profile["clocks"])
        self.assertIn("conv1", (self.output / "profile.txt").read_text())
        report = json.loads((self.output / "report.json").read_text())
        self.assertEqual(report["profile"]["operators"], profile["operators"])


if __name__ == "__main__":
    unittest.main()
