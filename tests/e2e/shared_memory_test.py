"""Replicas of one machine talk through shared memory: found by itself, with the bits of the network, and switched off by the job."""
import json
import subprocess
import unittest

from trainyard import ROOT, TRAINER, JobTest, job_file

OFF = "training.resources.sharedMemory=false"
THROUGH_MEMORY = "through shared memory"


class SharedMemory(JobTest):
    def test_a_job_has_the_same_bits_through_memory_and_over_the_network(self):
        for options in ({"ps": 2, "mode": "sync"}, {"mode": "allReduce"}):
            with self.subTest(**options):
                job = job_file(self.folder.name, workers=3, steps=20, batch=16, **options)
                runs = [self.launch(job, overrides) for overrides in ((), (OFF,))]
                reports = [self.succeed(run) for run in runs]
                self.assertEqual(reports[0]["parametersSha256"], reports[1]["parametersSha256"])
                self.assertIn(THROUGH_MEMORY, runs[0].logs())
                self.assertNotIn(THROUGH_MEMORY, runs[1].logs())

    def test_an_asynchronous_job_trains_through_memory(self):
        run = self.launch(job_file(self.folder.name, workers=2, ps=2, mode="async", steps=60, batch=16))
        self.succeed(run)
        self.assertIn(THROUGH_MEMORY, run.logs())

    def test_bench_adds_rightly_for_any_number_of_ranks(self):
        for ranks in (1, 2, 3, 5):
            for options in ([], ["--network"], ["--algorithm", "halvingDoubling"]):
                with self.subTest(ranks=ranks, options=options):
                    command = [TRAINER, "bench", "allreduce", "--json", "--ranks", str(ranks), "--rounds", "3", "--bytes", "4,40000,5000000", *options]
                    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    rows = json.loads(done.stdout)["rows"]
                    self.assertEqual([row["bytes"] for row in rows], [4, 40000, 5000000])
                    self.assertTrue(all(row["rounds"] == 3 and row["medianMicroseconds"] >= row["bestMicroseconds"] > 0 for row in rows))

    def test_bench_refuses_sizes_that_are_none(self):
        done = subprocess.run([TRAINER, "bench", "allreduce", "--bytes", "4,many"], cwd=ROOT, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn('bytes: found "many", expected a multiple of 4 from 4 to 1073741824', done.stderr)


if __name__ == "__main__":
    unittest.main()
