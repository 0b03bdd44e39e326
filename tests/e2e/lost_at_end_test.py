"""A replica that is lost after its last word to the others: they have ended by then, and the job ends with the same result all the same."""
import os
import pathlib
import unittest
from unittest import mock

from trainyard import JobTest, job_file

LOST_AT_EXIT = pathlib.Path(os.environ["TRAINYARD_BUILD"]) / "tests" / "liblost_at_exit.so"


class LostAtEnd(JobTest):
    def losing(self, replica, job, policy="Chief"):
        """The report of a job in which the replica is killed while it exits, and the digest that the job ends with when none is."""
        whole = self.succeed(self.launch(job))
        environment = {"LD_PRELOAD": str(LOST_AT_EXIT), "TRAINYARD_LOST": replica, "TRAINYARD_LOST_MARK": str(pathlib.Path(self.folder.name) / f"lost-{policy}")}
        with mock.patch.dict(os.environ, environment):
            run = self.launch(job, [f"spec.runPolicy.successPolicy={policy}"])
        report = self.succeed(run)
        self.assertEqual([(failure["replica"], failure["reason"]) for failure in report["failures"]], [(replica, "signal 9 (Killed)")])
        return run, report, whole["parametersSha256"]

    def test_the_chief_of_a_sync_job(self):
        run, report, sha256 = self.losing("worker-0", job_file(self.folder.name, workers=2, ps=2, mode="sync", checkpoint_every=5))
        self.assertEqual(report["parametersSha256"], sha256)
        self.assertIn("ps-0, ps-1, worker-1 had ended, and worker-0 still needs them: all start again", run.text)
        told = {restart["replica"]: restart["reason"] for restart in report["restarts"] if "still needed it" in restart["reason"]}
        self.assertEqual(told, dict.fromkeys(("ps-0", "ps-1", "worker-1"), "it had ended, and worker-0 still needed it"))

    def test_the_chief_of_an_async_job(self):
        run, report, _ = self.losing("worker-0", job_file(self.folder.name, workers=2, ps=2, mode="async", checkpoint_every=5))
        self.assertEqual(report["steps"], 24)
        self.assertIn("worker-0 still needs them", run.text)

    def test_the_chief_of_an_all_reduce(self):
        run, report, sha256 = self.losing("worker-0", job_file(self.folder.name, workers=3, mode="allReduce", checkpoint_every=5))
        self.assertEqual(report["parametersSha256"], sha256)
        self.assertIn("worker-1, worker-2 had ended, and worker-0 still needs them", run.text)

    def test_a_worker_whose_success_the_job_waits_for(self):
        job = job_file(self.folder.name, workers=2, ps=1, mode="sync", checkpoint_every=5)
        run, report, sha256 = self.losing("worker-1", job, policy="AllWorkers")
        self.assertEqual(report["parametersSha256"], sha256)
        self.assertIn("ps-0, worker-0 had ended, and worker-1 still needs them", run.text)

    def test_one_worker_alone_needs_nobody(self):
        run, report, sha256 = self.losing("worker-0", job_file(self.folder.name, checkpoint_every=5))
        self.assertEqual(report["parametersSha256"], sha256)
        self.assertNotIn("had ended", run.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
