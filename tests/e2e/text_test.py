"""Language models on tiny Shakespeare: perplexity, state over restarts, and text out of a checkpoint."""
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import trainyard
from trainyard import Run

TEXT = "examples/data/tinyshakespeare"
JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: text}}
spec:
  ps: {{replicas: {ps}}}
  worker: {{replicas: {workers}}}
  runPolicy: {{backoffLimit: 0}}
  training:
    model: {{preset: ptbLstm, vocabulary: {vocabulary}, embedding: 16, units: 32, numLayers: 2, steps: 10}}
    data:
      format: text
      dir: examples/data/tinyshakespeare
      tokens: {tokens}
      train: {{files: [input.txt], range: [0, 30000]}}
      eval: {{files: [input.txt], range: [30000, 33000]}}
    batchSize: 10
    steps: {steps}
    optimizer: {{name: adam, learningRate: 0.01, clipNorm: 1}}
    strategy: {strategy}
    seed: 3
    checkpoint: {{everySteps: {every}, keep: 3}}
    resources: {{threads: 1}}
"""


class TextTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *, output=None, overrides=(), workers=1, ps=0, mode=None, steps=60, every=0, tokens="characters", vocabulary=66):
        strategy = "{local: {}}" if mode is None else "{parameterServer: {mode: %s}}" % mode
        job = self.folder / "job.yaml"
        job.write_text(JOB.format(workers=workers, ps=ps, strategy=strategy, steps=steps, every=every, tokens=tokens, vocabulary=vocabulary))
        return Run(job, output=output or tempfile.mkdtemp(dir=self.folder), overrides=overrides)

    def run_job(self, **options):
        run = self.start(**options)
        self.assertEqual(run.wait(), 0, f"{run.text}\n{run.logs()}")
        return run

    def generate(self, *arguments):
        return subprocess.run([trainyard.TRAINER, "generate", *map(str, arguments)], cwd=trainyard.ROOT, capture_output=True, text=True, timeout=60)


class Training(TextTest):
    def test_a_short_training_reaches_a_perplexity(self):
        report = self.run_job(steps=400).report()
        self.assertLess(report["eval"]["perplexity"], 12)  # 66 characters at first
        self.assertGreater(report["history"][0]["perplexity"], report["history"][-1]["perplexity"])
        self.assertEqual(report["unit"], "characters")
        self.assertAlmostEqual(report["unitsPerSecond"], 10 * report["examplesPerSecond"], places=3)

    def test_one_server_and_two_workers_train_words(self):
        for mode in ("sync", "async"):
            report = self.run_job(workers=2, ps=1, mode=mode, tokens="words", vocabulary=500, steps=40).report()
            self.assertEqual(report["state"], "Succeeded")
            self.assertEqual([worker["batches"] for worker in report["perWorker"]], [40, 40])
            self.assertLess(report["eval"]["perplexity"], 300)
            self.assertEqual(report["unit"], "words")

    def test_a_text_that_is_too_short_is_named(self):
        run = self.start(overrides=["training.data.train.range=[0, 100]", "training.data.eval=null"])
        self.assertNotEqual(run.wait(), 0)
        self.assertIn("100 tokens are too few for 10 rows (batchSize 10, 1 workers) of 10 steps, expected 110 or more", run.logs())


class State(TextTest):
    """An epoch has 299 steps, with two workers 149, so that all of this happens inside one."""

    def check_resume(self, **options):
        whole = self.run_job(steps=60, **options).report()
        half = self.run_job(steps=25, **options)
        resumed = self.run_job(steps=60, output=half.output, **options)
        self.assertEqual(whole["parametersSha256"], resumed.report()["parametersSha256"])
        self.assertEqual(whole["eval"], resumed.report()["eval"])
        self.assertNotIn("starts with zeros", resumed.logs())
        return half

    def test_a_resumed_local_run_has_the_bits_of_one_that_was_not_stopped(self):
        self.check_resume()

    def test_so_has_a_sync_run_with_two_workers(self):
        self.check_resume(workers=2, ps=1, mode="sync")

    def test_a_stopped_sync_run_goes_on_with_every_workers_state(self):
        # The signal may catch workers at different steps, and the last round then lacks a gradient.
        # Steps that all workers have passed are exact.
        options = {"workers": 2, "ps": 1, "mode": "sync", "every": 7}
        whole = self.run_job(steps=140, **options).report()
        stopped = self.start(steps=140, **options)
        stopped.await_step(20)
        stopped.process.terminate()
        stopped.wait()
        checkpoints = stopped.output / "checkpoints"
        states = {int(path.stem.split("-")[1]) for path in (checkpoints / "state-worker-1").glob("step-*")}
        steps = {int(path.name.split("-")[1]): path for path in checkpoints.glob("step-*")}
        for step, path in steps.items():
            if step % 7 != 0 or step not in states:
                shutil.rmtree(path)
        if stopped.process.returncode != 0:  # it was not faster than the signal
            self.assertTrue(any(step % 7 == 0 for step in states), states)
            resumed = self.run_job(steps=140, output=stopped.output, **options)
            self.assertEqual(whole["parametersSha256"], resumed.report()["parametersSha256"], resumed.logs())

    def test_without_a_workers_state_the_run_goes_on_and_says_so(self):
        half = self.run_job(steps=25, workers=2, ps=1, mode="sync")
        shutil.rmtree(half.output / "checkpoints" / "state-worker-1")
        resumed = self.run_job(steps=40, output=half.output, workers=2, ps=1, mode="sync")
        reasons = [restart["reason"] for restart in resumed.report()["restarts"] if restart["replica"] == "worker-1"]
        self.assertTrue(any("the state of recurrent layers starts with zeros" in reason for reason in reasons), reasons)

    def test_another_vocabulary_is_refused(self):
        run = self.run_job(tokens="words", vocabulary=500, steps=5)
        other = self.start(tokens="words", vocabulary=500, steps=9, output=run.output, overrides=["training.data.train.range=[100, 30000]"])
        self.assertNotEqual(other.wait(), 0)
        self.assertIn("were trained with another vocabulary", other.logs())


class Exactness(TextTest):
    """The gradient of the embedding goes to servers as the few rows that a batch has; the bits must be those of the whole table's."""

    # Answered by rows too, and by whole tables (docs/wire.md); with their number of slots.
    ADAGRAD = ("{name: adagrad, learningRate: 0.1}", 1)
    ADAM = ("{name: adam, learningRate: 0.01, clipNorm: 1}", 2)
    STEPS = 12

    def train(self, optimizer, **options):
        """The last parameters and the report."""
        overrides = [f"training.optimizer={optimizer}", "training.data.eval=null"]
        run = self.run_job(tokens="words", vocabulary=1000, steps=self.STEPS, overrides=overrides, **options)
        report = run.report()
        self.assertEqual(report["steps"], self.STEPS)
        return trainyard.last_parameters(run.output), report

    def test_one_worker_over_one_or_three_servers_gives_the_bits_of_local(self):
        for optimizer, slots in (self.ADAGRAD, self.ADAM):
            local, _ = self.train(optimizer)
            size = 4 * sum(map(len, local.values()))
            for servers in (1, 3):
                with self.subTest(optimizer=optimizer, servers=servers):
                    over, report = self.train(optimizer, workers=1, ps=servers, mode="sync")
                    self.assertEqual(local, over)
                    # Start values, slots and whole gradients would be a `size` more.
                    self.assertLess(report["perWorker"][0]["bytesSent"], (slots + self.STEPS) * size)

    def test_two_workers_over_one_or_three_servers_give_the_same_bits(self):
        optimizer, _ = self.ADAGRAD
        one, _ = self.train(optimizer, workers=2, ps=1, mode="sync")
        three, _ = self.train(optimizer, workers=2, ps=3, mode="sync")
        self.assertEqual(one, three)


class Vocabularies(TextTest):
    def test_workers_with_another_text_are_refused_by_name(self):
        ports = trainyard.free_ports(6)
        hosts = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]},127.0.0.1:{ports[2]}"]
        jobs = {name: self.folder / f"{name}.yaml" for name in ("one", "other")}
        job = JOB.format(workers=2, ps=1, strategy="{parameterServer: {mode: sync}}", steps=5, every=0, tokens="words", vocabulary=500)
        jobs["one"].write_text(job)
        # The same job file, but for the folder: settings that differ are refused before a vocabulary is compared.
        (self.folder / "text").mkdir()
        (self.folder / "text/input.txt").write_text((trainyard.ROOT / TEXT / "input.txt").read_text()[100:])
        self.assertIn(TEXT, job)
        jobs["other"].write_text(job.replace(TEXT, str(self.folder / "text")))

        def start(role, index, name):
            command = [trainyard.TRAINER, "train", f"--job_name={role}", f"--task_index={index}", *hosts, "--config", str(jobs[name]),
                       "--output", str(self.folder / "out"), "--http_port", str(ports[3 + index + (role == "worker")])]
            process = subprocess.Popen(command, cwd=trainyard.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            return process

        started = [start("ps", 0, "one"), start("worker", 0, "one"), start("worker", 1, "other")]
        differ = r"the vocabulary differs: .*worker (\d) has 500 words \(SHA-256 (\w{16})\), worker (\d) has 500 words \(SHA-256 (\w{16})\)"
        # The worker that comes second is refused.
        deadline = time.monotonic() + 60
        while not (refused := [worker for worker in started[1:] if worker.poll() is not None]):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(refused[0].returncode, 1)
        said = re.search(differ, refused[0].stdout.read())
        self.assertTrue(said)
        self.assertEqual({said[1], said[3]}, {"0", "1"})
        self.assertEqual(int(said[3]), started.index(refused[0]) - 1)
        self.assertNotEqual(said[2], said[4])


class Generate(TextTest):
    def test_text_comes_out_of_a_checkpoint_the_same_for_the_same_seed(self):
        run = self.run_job(steps=100)
        first = self.generate(run.output, "--length", 80, "--prompt", "First")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(len(first.stdout), len("First") + 80 + 1)
        self.assertTrue(first.stdout.startswith("First"))
        self.assertEqual(first.stdout, self.generate(run.output / "checkpoints" / "step-100", "--length", 80, "--prompt", "First").stdout)
        self.assertNotEqual(first.stdout, self.generate(run.output, "--length", 80, "--prompt", "First", "--seed", 2).stdout)
        likeliest = self.generate(run.output, "--length", 30, "--temperature", 0, "--seed", 1).stdout
        self.assertEqual(likeliest, self.generate(run.output, "--length", 30, "--temperature", 0, "--seed", 9).stdout)
        self.assertEqual(likeliest, self.generate(run.output, "--length", 30, "--top-k", 1, "--backend", "reference").stdout)

    def test_a_text_goes_on_the_same_from_any_part_of_it_as_the_prompt(self):
        # A prompt is read in pieces of 32, 8 and 1 tokens, a continuation one by one.
        run = self.run_job(steps=60)
        whole = self.generate(run.output, "--prompt", "First", "--length", 90, "--temperature", 0).stdout[:-1]
        self.assertEqual(len(whole), 95)
        for read in (6, 8, 31, 32, 33, 41, 72, 94):
            with self.subTest(read=read):
                rest = self.generate(run.output, "--prompt", whole[:read], "--length", 95 - read, "--temperature", 0)
                self.assertEqual(rest.stdout[:-1], whole, rest.stderr)

    def with_zeros(self, run, name, rows):
        """A copy of the run's checkpoint in which these rows of every layer's carried state are zeros; rows None: without carried state."""
        copy = self.folder / name
        shutil.copytree(run.output / "checkpoints" / "step-100", copy)
        shutil.copy(run.output / "checkpoints" / "vocabulary.json", copy)
        manifest = json.loads((copy / "manifest.json").read_text())
        if rows is None:
            del manifest["state"]["statePlace"]
            manifest["shards"] = [shard for shard in manifest["shards"] if shard["file"] != "state.safetensors"]
        else:
            state = bytearray((copy / "state.safetensors").read_bytes())
            size = int.from_bytes(state[:8], "little")
            for entry in json.loads(state[8 : 8 + size]).values():
                row = 4 * entry["shape"][1]
                begin, end = (8 + size + entry["data_offsets"][0] + row * number for number in (rows.start, rows.stop))
                state[begin:end] = bytes(end - begin)
            (copy / "state.safetensors").write_bytes(state)
            shard = next(shard for shard in manifest["shards"] if shard["file"] == "state.safetensors")
            shard["sha256"] = hashlib.sha256(state).hexdigest()
        (copy / "manifest.json").write_text(json.dumps(manifest))
        return copy

    def test_text_begins_with_the_state_of_the_trainings_first_row(self):
        run = self.run_job(steps=100)
        texts = {name: self.generate(checkpoint, "--length", 200, "--seed", 1) for name, checkpoint in (
            ("trained", run.output), ("other rows", self.with_zeros(run, "other", range(1, 10))), ("first row", self.with_zeros(run, "first", range(1))),
            ("no state", self.with_zeros(run, "none", None)))}
        for name, text in texts.items():
            self.assertEqual(text.returncode, 0, f"{name}: {text.stderr}")
        self.assertEqual(texts["other rows"].stdout, texts["trained"].stdout)
        self.assertNotEqual(texts["first row"].stdout, texts["trained"].stdout)
        self.assertEqual(texts["first row"].stdout, texts["no state"].stdout)

    def test_the_vocabulary_is_in_the_checkpoints_folder_or_beside_it_or_where_one_says(self):
        run = self.run_job(steps=5)
        checkpoint = run.output / "checkpoints" / "step-5"
        expected = self.generate(checkpoint, "--length", 20).stdout
        self.assertEqual(len(expected), 21)
        alone = self.folder / "elsewhere" / "copy"
        shutil.copytree(checkpoint, alone)
        missing = self.generate(alone)
        self.assertEqual(missing.returncode, 1)
        self.assertIn(f"no vocabulary.json in {alone} or in {alone.parent}", missing.stderr)
        self.assertIn("--vocabulary", missing.stderr)
        vocabulary = run.output / "checkpoints" / "vocabulary.json"
        self.assertEqual(expected, self.generate(alone, "--length", 20, "--vocabulary", vocabulary).stdout)
        shutil.copy(vocabulary, alone)
        self.assertEqual(expected, self.generate(alone, "--length", 20).stdout)
        (alone / "vocabulary.json").write_text(vocabulary.read_text().replace('"e"', '"#"'))
        self.assertIn(f"was not trained with the vocabulary in {alone / 'vocabulary.json'}", self.generate(alone).stderr)
        self.assertIn("nowhere: No such file", self.generate(alone, "--vocabulary", "nowhere").stderr)

    def predict(self, path, text, *flags, file="-"):
        command = [trainyard.TRAINER, "predict", path, file, "--json", *map(str, flags)]
        done = subprocess.run(command, cwd=trainyard.ROOT, input=text, capture_output=True, timeout=60)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode(errors="replace")

    def test_predict_names_the_token_that_generate_writes_next(self):
        run = self.run_job(steps=60)
        said, _ = self.predict(run.output, b"What is th\n\nFirst Citizen:\nz")
        self.assertEqual([line["index"] for line in said], [0, 2, 3])
        for line, text in zip(said, ("What is th", "First Citizen:", "z"), strict=True):
            written = self.generate(run.output, "--prompt", text, "--temperature", 0, "--length", 1).stdout
            self.assertEqual(text + line["class"], written[:-1])
        (alone,), _ = self.predict(run.output, b"First Citizen:", "--top", 65)
        self.assertEqual(alone["probability"], said[1]["probability"])  # beside others as by itself
        self.assertAlmostEqual(sum(entry["probability"] for entry in alone["top"]), 1, delta=0.01)
        (self.folder / "texts.jsonl").write_text('"First Citizen:"\n' + json.dumps([entry["classNumber"] for entry in alone["top"]][:3]) + "\n")
        (same, ids), _ = self.predict(run.output, b"", file=self.folder / "texts.jsonl")
        self.assertEqual(same["probability"], alone["probability"])
        self.assertEqual(ids["index"], 1)

    def test_texts_that_cannot_be_read_are_named_and_the_rest_is_predicted(self):
        run = self.run_job(steps=2)
        said, errors = self.predict(run.output, b"good\n\xff\n" + b"a" * 70_000 + b"\ngood")
        self.assertEqual([line.get("index") for line in said], [0, None, None, 3])
        self.assertIn("line 2 is not UTF-8: found the byte 0xff", errors)
        self.assertIn("line 3: found 70000 tokens, expected 1 to 65536", errors)
        (self.folder / "texts.jsonl").write_text('[]\n[0.5]\n[100000]\n{}\n""\n"' + "a" * 2_000_000 + '"\n')
        said, errors = self.predict(run.output, b"", file=self.folder / "texts.jsonl")
        self.assertEqual(len(said), 6)
        for words in ("line 1: found 0 tokens", "line 2: found a token id that is no whole number from 0 to", "line 3: found a token id", "line 4: expected a text",
                      "line 5: found 0 tokens", "line 6: found more than 1048576 bytes"):
            self.assertIn(words, errors)

    def test_a_word_that_the_vocabulary_lacks_counts_as_unknown(self):
        run = self.run_job(tokens="words", vocabulary=500, steps=5)
        said, _ = self.predict(run.output, b"the Xylophone\nthe Zeppelin\nthe <unk>\nthe you")
        self.assertEqual(len({line["probability"] for line in said[:3]}), 1)
        self.assertNotEqual(said[0]["probability"], said[3]["probability"])

    def test_what_cannot_be_is_named(self):
        run = self.run_job(tokens="words", vocabulary=500, steps=5)
        words = self.generate(run.output, "--prompt", "the Xylophone")
        self.assertEqual(words.returncode, 1)
        self.assertIn('the prompt\'s "Xylophone" is not among the 500 words that the model knows', words.stderr)
        self.assertIn(f"which is a folder of runs; name one, such as {run.output}", self.generate(self.folder).stderr)
        self.assertIn("no good checkpoint in", self.generate(tempfile.mkdtemp(dir=self.folder)).stderr)
        job = trainyard.job_file(self.folder, model="linear", steps=2)
        linear = Run(job, output=tempfile.mkdtemp(dir=self.folder))
        self.assertEqual(linear.wait(), 0, linear.logs())
        self.assertIn("model 'linear' takes numbers of [10]: generate takes a model that reads tokens", self.generate(linear.output).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
