"""The judge of cluster_chaos.py holds the counters of a status against what was done to the job's pods."""
import calendar
import pathlib
import sys
import time
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


END = "2026-01-01T00:01:40Z"
END_SECONDS = calendar.timegm(time.strptime(END, "%Y-%m-%dT%H:%M:%SZ"))


class CountsAgainstPods(unittest.TestCase):
    def wrong(self, succeeded, deleted=(), before_the_end=10):
        finished = {"metadata": {"name": "j-ps-1"}, "status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}}
        told = {"completionTime": END, "replicaStatuses": {"ps": {"desired": 2, "succeeded": succeeded}}}
        blown = types.SimpleNamespace(name="j", deleted={name: END_SECONDS - before_the_end for name in deleted})
        return cluster_judge.counts_against_pods(blown, told, {"ps": 2}, [finished])

    def test_finished_pods_are_counted_as_succeeded(self):
        self.assertEqual(self.wrong(succeeded=1), [])
        self.assertEqual(len(self.wrong(succeeded=0)), 1)
        self.assertEqual(len(self.wrong(succeeded=2)), 1)

    def test_a_deleted_pod_may_have_ended_with_success_before_it_went(self):
        self.assertEqual(self.wrong(succeeded=2, deleted=["j-ps-0"]), [])
        self.assertEqual(len(self.wrong(succeeded=2, deleted=["j-ps-1"])), 1)
        self.assertEqual(len(self.wrong(succeeded=2, deleted=["j-ps-0"], before_the_end=100)), 1)


class PodsThatStillRun(unittest.TestCase):
    def test_a_pod_still_runs_only_where_it_was_taken_from_the_operator_too_late(self):
        running = {"metadata": {"name": "j-ps-0"}, "status": {"phase": "Running", "containerStatuses": []}}
        told = {"completionTime": END, "replicaStatuses": {"ps": {"desired": 1}}}
        blown = types.SimpleNamespace(name="j", deleted={})
        self.assertEqual(cluster_judge.counts_against_pods(blown, told, {"ps": 1}, [running]), ["pod j-ps-0 is still Running"])
        self.assertEqual(cluster_judge.counts_against_pods(blown, told, {"ps": 1}, [running], too_late={"j-ps-0"}), [])


class ServicesOfTheSpec(unittest.TestCase):
    def wrong(self, spec, *services):
        labels = {f"trainyard.dev/{key}": value for key, value in (("job-name", "j"), ("job-uid", "1"))}
        owned = {"labels": labels, "ownerReferences": [{"uid": "1", "controller": True}]}
        named = {cluster_judge.PODS: [], cluster_judge.SERVICES: [{"metadata": {"name": name, **owned}} for name in services],
                 cluster_judge.CONFIG_MAPS: [{"metadata": {"name": "j-cluster", **owned}, "data": {"worker_hosts": "a"}}]}
        blown = types.SimpleNamespace(name="j", uid="1")
        return cluster_judge.children(blown, {"ps": 1, "worker": 1}, cluster_judge.per_replica(spec), named, set())

    def test_a_job_has_one_service(self):
        self.assertEqual(self.wrong({}, "j"), [])
        self.assertEqual(self.wrong({"network": {"services": "Headless"}}, "j"), [])
        self.assertEqual(self.wrong({}), ["services that are missing: ['j']"])
        self.assertEqual(self.wrong({}, "j", "j-ps-0"), ["services that the spec does not ask for: ['j-ps-0']"])

    def test_each_replica_has_one_where_the_spec_asks_for_it(self):
        each = {"network": {"services": "PerReplica"}}
        self.assertEqual(self.wrong(each, "j-ps-0", "j-worker-0"), [])
        self.assertEqual(self.wrong(each, "j", "j-ps-0"),
                         ["services that the spec does not ask for: ['j']", "services that are missing: ['j-worker-0']"])


class FinishedChiefStayed(unittest.TestCase):
    def wrong(self, pods, deleted=()):
        blown = types.SimpleNamespace(name="j", deleted=dict(deleted))
        return cluster_judge.finished_chief_stayed(blown, {"completionTime": END}, {"chief": 1, "worker": 1}, [{"metadata": {"name": name}} for name in pods])

    def test_the_chief_must_be_there_for_its_logs(self):
        self.assertEqual(self.wrong(["j-chief-0"]), [])
        self.assertEqual(self.wrong(["j-worker-0"]), ["the finished pod j-chief-0 did not stay"])

    def test_a_chief_that_was_suspended_or_deleted_at_its_end_may_be_gone(self):
        self.assertEqual(self.wrong([], {"j-chief-0": END_SECONDS - 1}.items()), [])
        self.assertEqual(len(self.wrong([], {"j-chief-0": END_SECONDS - 100}.items())), 1)
        self.assertEqual(len(self.wrong([], {"j-worker-0": END_SECONDS - 1}.items())), 1)


if __name__ == "__main__":
    unittest.main()
