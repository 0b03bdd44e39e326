"""Early stopping, the best checkpoint and the evaluator, alone and over servers. The metric is made to stop improving at a known evaluation."""
import json
import pathlib
import time
import unittest

import trainyard
from trainyard import JobTest, job_file

SESSION_START = b"\x3a\x02\x08\x01"  # the field session_log {status: START} of an Event
STEPS_OF_AN_EPOCH = 16  # 1,024 examples of the synthetic set in batches of 64

# No change of the loss is that large: the first evaluation stays the best one, and the training ends at the third.
THIRD = "    evaluate: {everyEpochs: 1, earlyStopping: {metric: loss, minDelta: 1000000, patience: 2}}\n"
# The loss falls, so the first evaluation is the best one.
FIRST_IS_BEST = "    evaluate: {everyEpochs: 1, earlyStopping: {metric: loss, mode: max, patience: 2, restoreBest: true}}\n"


class EarlyStoppingTest(JobTest):
    def start(self, overrides=(), output=None, steps=1000, evaluate=THIRD, **options):
        job = job_file(self.folder.name, model="linear", steps=steps, extra=evaluate, **options)
        return self.launch(job, overrides, output)


class Stops(EarlyStoppingTest):
    def test_alone_at_the_evaluation_that_patience_says(self):
        run = self.start()
        report = self.succeed(run)
        self.assertEqual(report["steps"], 3 * STEPS_OF_AN_EPOCH)
        self.assertEqual(report["stoppedEarly"]["step"], 3 * STEPS_OF_AN_EPOCH)
        self.assertIn("loss has not improved on", report["stoppedEarly"]["reason"])
        self.assertIn(f"(step {STEPS_OF_AN_EPOCH})", report["stoppedEarly"]["reason"])
        self.assertEqual([epoch["step"] for epoch in report["history"]], [16, 32, 48])
        self.assertTrue(all("loss" in epoch["eval"] for epoch in report["history"]))
        self.assertIn("stopped early", run.text)

    def test_all_workers_at_the_same_step_in_sync_mode(self):
        for ps in (1, 2):
            report = self.succeed(self.start(workers=3, ps=ps, mode="sync", batch=32))
            last = report["stoppedEarly"]["step"]
            self.assertEqual(report["steps"], last)
            self.assertEqual(last, report["history"][-1]["step"])
            self.assertEqual([worker["batches"] for worker in report["perWorker"]], [last] * 3)
            self.assertEqual(report["failures"], [])

    def test_all_workers_soon_in_async_mode(self):
        report = self.succeed(self.start(workers=2, ps=1, mode="async", steps=100_000))
        self.assertIn("stoppedEarly", report)
        self.assertLess(report["steps"], 100_000)
        self.assertEqual(sum(worker["batches"] for worker in report["perWorker"]), report["steps"])

    def test_a_resumed_run_keeps_its_patience_and_one_that_has_stopped_trains_no_more(self):
        for options in ({}, {"workers": 2, "ps": 1, "mode": "sync", "batch": 32}):
            first = self.start(steps=2 * STEPS_OF_AN_EPOCH, **options)
            self.assertNotIn("stoppedEarly", self.succeed(first))
            second = self.succeed(self.start(output=first.output, **options))
            self.assertEqual(second["stoppedEarly"]["step"], 3 * STEPS_OF_AN_EPOCH)
            third = self.succeed(self.start(output=first.output, **options))
            self.assertEqual(third["steps"], 3 * STEPS_OF_AN_EPOCH)
            self.assertEqual(third["parametersSha256"], second["parametersSha256"])

    def test_an_evaluation_that_a_lost_chief_had_not_come_to_is_made_up_for(self):
        for options in ({}, {"workers": 2, "ps": 1, "mode": "sync", "batch": 32}):
            first = self.start(steps=2 * STEPS_OF_AN_EPOCH, **options)
            self.succeed(first)
            log = pathlib.Path(first.output, "checkpoints/evaluations.json")
            told = json.loads(log.read_text(encoding="utf-8"))
            self.assertEqual([each["step"] for each in told["evaluations"]], [16, 32])
            log.write_text(json.dumps({**told, "evaluations": told["evaluations"][:1]}), encoding="utf-8")
            second = self.succeed(self.start(output=first.output, **options))
            self.assertEqual(second["stoppedEarly"]["step"], 3 * STEPS_OF_AN_EPOCH)
            self.assertEqual([each["step"] for each in json.loads(log.read_text(encoding="utf-8"))["evaluations"]], [16, 32, 48])


class Best(EarlyStoppingTest):
    def parameters(self, run, folder):
        return trainyard.safetensors(run.output / "checkpoints" / folder / "parameters.safetensors")

    def test_it_is_kept_beside_the_newest_and_becomes_the_result_where_that_is_asked_for(self):
        for options in ({}, {"workers": 2, "ps": 2, "mode": "sync", "batch": 32}):
            run = self.start(evaluate=FIRST_IS_BEST, overrides=["training.checkpoint.everySteps=2"], **options)
            report = self.succeed(run)
            self.assertEqual(report["best"]["step"], STEPS_OF_AN_EPOCH)
            self.assertTrue(report["best"]["restored"])
            self.assertEqual(report["eval"]["loss"], report["best"]["value"])
            manifest = json.loads((run.output / "checkpoints/best/manifest.json").read_text())
            self.assertEqual(manifest["step"], STEPS_OF_AN_EPOCH)
            self.assertEqual(self.parameters(run, "best"), self.parameters(run, f"step-{report['steps']}"))
            self.assertEqual(pathlib.Path(report["best"]["checkpoint"]), run.output / "checkpoints/best")

    def test_without_restoring_the_result_is_the_last_one_and_the_best_starts_another_training(self):
        run = self.start(steps=2 * STEPS_OF_AN_EPOCH, evaluate="    evaluate: {everyEpochs: 1}\n",
                         overrides=["training.checkpoint.keepBest={metric: loss, mode: max}"])
        report = self.succeed(run)
        self.assertEqual(report["best"]["step"], STEPS_OF_AN_EPOCH)
        self.assertNotEqual(self.parameters(run, "best"), self.parameters(run, "step-32"))
        again = self.succeed(self.start(steps=1, evaluate="", overrides=[f"training.initFrom={run.output}/checkpoints/best/parameters.safetensors",
                                                                        "training.optimizer.learningRate=1e-30"]))
        self.assertAlmostEqual(again["eval"]["loss"], report["best"]["value"], places=5)


class Evaluator(EarlyStoppingTest):
    def test_it_evaluates_for_the_chief_which_stops_by_its_results(self):
        run = self.start(overrides=["evaluator.replicas=1", "training.evaluate.everyEpochs=20"], workers=2, ps=1, mode="sync", batch=32, steps=1_000_000)
        report = self.succeed(run)
        self.assertIn("stoppedEarly", report)
        self.assertLess(report["steps"], 1_000_000)
        workers = [worker["batches"] for worker in report["perWorker"]]
        self.assertEqual(workers, [report["steps"]] * 2)
        evaluations = json.loads((run.output / "checkpoints/evaluations.json").read_text())["evaluations"]
        self.assertGreaterEqual(len(evaluations), 3)
        self.assertTrue(all(evaluation["checkpoint"] for evaluation in evaluations))
        of_evaluator = report["evaluator"]
        self.assertEqual(of_evaluator["evaluations"], len(evaluations))
        self.assertEqual(of_evaluator["last"]["step"], evaluations[-1]["step"])
        self.assertEqual(of_evaluator["last"]["metrics"], evaluations[-1]["metrics"])
        self.assertGreater(of_evaluator["best"]["seconds"], 0)
        self.assertEqual(of_evaluator["best"]["metrics"]["loss"], min(evaluation["metrics"]["loss"] for evaluation in evaluations))
        (events,) = (run.output / "summaries/eval").glob("events.out.tfevents.*")
        self.assertEqual(events.read_bytes().count(SESSION_START), 1)  # TensorBoard drops what an evaluator before it had written
        self.assertEqual(len((run.output / "config/worker_hosts").read_text().split(",")), 2)
        self.assertTrue(any(epoch["eval"] for epoch in report["history"][:-1]))

    def test_the_best_checkpoint_that_it_found_has_its_confusion_matrix(self):
        run = self.launch(job_file(self.folder.name, steps=1_000_000, extra=FIRST_IS_BEST), ["evaluator.replicas=1"])
        report = self.succeed(run)
        self.assertLess(report["best"]["step"], report["steps"])
        evaluation = json.loads((run.output / "evaluation.json").read_text())
        self.assertEqual(evaluation["step"], report["best"]["step"])

    def test_the_best_checkpoint_is_the_last_one_where_that_is_best_and_the_evaluator_has_not_come_to_it(self):
        # Any step is better than those before it, and the job ends sooner than an evaluator looks.
        run = self.start(steps=STEPS_OF_AN_EPOCH, evaluate="    evaluate: {everyEpochs: 1}\n",
                         overrides=["evaluator.replicas=1", "training.checkpoint.keepBest={metric: loss}"])
        report = self.succeed(run)
        self.assertEqual(report["best"]["step"], STEPS_OF_AN_EPOCH)
        self.assertEqual(pathlib.Path(report["best"]["checkpoint"]), run.output / "checkpoints/best")
        self.assertEqual(json.loads((run.output / "checkpoints/best/manifest.json").read_text())["step"], STEPS_OF_AN_EPOCH)

    def test_one_that_is_killed_is_restarted_and_costs_the_job_nothing(self):
        run = self.start(overrides=["evaluator.replicas=1", "training.evaluate.everyEpochs=20", "spec.runPolicy.backoffLimit=0"], steps=1_000_000)
        end = time.monotonic() + trainyard.DEADLINE
        while not (run.output / "checkpoints/evaluations.json").exists() and time.monotonic() < end:
            time.sleep(0.02)
        run.kill("evaluator")
        report = self.succeed(run)
        self.assertIn("stoppedEarly", report)
        self.assertEqual([failure["replica"] for failure in report["failures"]], ["evaluator-0"])


class Suspended(EarlyStoppingTest):
    def test_a_suspended_job_is_not_started_and_that_is_said(self):
        run = self.start(run_policy=", suspend: true")
        self.assertEqual(run.wait(), 1)
        self.assertIn("spec.runPolicy.suspend: found true", run.text)
        self.assertEqual(list(run.output.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
