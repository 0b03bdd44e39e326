"""The judge of cluster_chaos.py holds the counters of a status against what was done to the job's pods."""
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster_judge  # noqa: E402


def job(kills=0, deletions=0, ended=(), full_disks=0):
    return types.SimpleNamespace(kills=kills, deletions=deletions, edits=0, ended_pods=list(ended), full_disks=[object()] * full_disks)


def pod(name, uid, container_restarts=0):
    return {"metadata": {"name": name, "uid": uid}, "status": {"containerStatuses": [{"restartCount": container_restarts}]}}


def status(disruptions=0, **restarts_by_role):
    counted = sum(number for role, number in restarts_by_role.items() if role != "evaluator")
    return {"restarts": counted, "disruptions": disruptions, "replicaStatuses": {role: {"restarts": number} for role, number in restarts_by_role.items()}}


class RestartsAgainstEnds(unittest.TestCase):
    def test_killed_pods_that_came_again_are_restarts(self):
        killed = job(kills=1, ended=[("j-worker-0", "old")])
        self.assertEqual(cluster_judge.restarts_against_ends(killed, status(worker=1), [pod("j-worker-0", "new")]), [])

    def test_an_evaluators_restart_counts_by_role_alone(self):
        killed = job(kills=2, ended=[("j-worker-0", "old"), ("j-evaluator-0", "old")])
        pods = [pod("j-worker-0", "new"), pod("j-evaluator-0", "new")]
        self.assertEqual(cluster_judge.restarts_against_ends(killed, status(worker=1, evaluator=1), pods), [])

    def test_an_end_that_nobody_counted_is_wrong(self):
        killed = job(kills=1, ended=[("j-worker-0", "old")])
        wrong = cluster_judge.restarts_against_ends(killed, status(worker=0), [pod("j-worker-0", "new")])
        self.assertEqual(len(wrong), 1)
        self.assertIn("1 pods came again", wrong[0])

    def test_more_restarts_than_kills_are_wrong(self):
        self.assertEqual(len(cluster_judge.restarts_against_ends(job(), status(worker=1), [pod("j-worker-0", "same")])), 1)

    def test_a_container_that_restarted_in_its_pod_must_be_counted(self):
        pods = [pod("j-worker-0", "same", container_restarts=1)]
        self.assertEqual(len(cluster_judge.restarts_against_ends(job(kills=1), status(worker=0), pods)), 1)
        self.assertEqual(cluster_judge.restarts_against_ends(job(kills=1), status(worker=1), pods), [])

    def test_a_killed_pod_that_stayed_needs_no_restart(self):
        killed = job(kills=1, ended=[("j-worker-0", "same")])  # the job was over
        self.assertEqual(cluster_judge.restarts_against_ends(killed, status(worker=0), [pod("j-worker-0", "same")]), [])

    def test_a_replica_that_found_its_disk_full_is_a_restart_that_an_event_tells(self):
        event = {"reason": "Restarting", "note": "worker-0 failed and is recreated (restart 1 of 1000): exit code 201 (Error): no room"}
        pods = [pod("j-worker-0", "new")]
        self.assertEqual(cluster_judge.restarts_against_ends(job(full_disks=1), status(worker=1), pods, [event]), [])
        self.assertEqual(len(cluster_judge.restarts_against_ends(job(full_disks=1), status(worker=1), pods, [])), 1)
        self.assertEqual(len(cluster_judge.restarts_against_ends(job(), status(worker=1), pods, [event])), 1)


class CountsAgainstPods(unittest.TestCase):
    def wrong(self, succeeded, deleted=()):
        finished = {"metadata": {"name": "j-ps-1"}, "status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}}
        told = {"replicaStatuses": {"ps": {"desired": 2, "succeeded": succeeded}}}
        return cluster_judge.counts_against_pods(types.SimpleNamespace(name="j", deleted=set(deleted)), told, {"ps": 2}, [finished])

    def test_finished_pods_are_counted_as_succeeded(self):
        self.assertEqual(self.wrong(succeeded=1), [])
        self.assertEqual(len(self.wrong(succeeded=0)), 1)
        self.assertEqual(len(self.wrong(succeeded=2)), 1)

    def test_a_deleted_pod_may_have_ended_with_success_before_it_went(self):
        self.assertEqual(self.wrong(succeeded=2, deleted=["j-ps-0"]), [])
        self.assertEqual(len(self.wrong(succeeded=2, deleted=["j-ps-1"])), 1)


if __name__ == "__main__":
    unittest.main()
