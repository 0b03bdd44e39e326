"""One job at a time on an otherwise quiet cluster: how soon its pods exist, how soon they all run and its status says so, and how far it is behind."""

import statistics
import time

from jobs import PODS, REPLICAS, within
from observer import Observer


def measure_single(plane, jobs, namespace, make_job, repeats):
    """`jobs` is the path of all namespaces' jobs; make_job(name) gives one of six pods."""
    observer, api, path = Observer(plane, jobs, PODS), plane.api(), within(jobs, namespace)
    time.sleep(1)
    pods, running, behind = [], [], []
    for number in range(repeats):
        name, began = f"single-{number}", time.monotonic()
        api.create(path, make_job(name))
        observer.wait(f"{name} Running", lambda seen, name=name: name in seen and seen[name].runs_since(REPLICAS) is not None, 60)
        job = observer.snapshot()[name]
        pods.append((max(job.created_pods.values()) - began) * 1000)
        running.append((job.runs_since(REPLICAS) - began) * 1000)
        behind.append(job.status_lag() * 1000)
        api.delete(f"{path}/{name}")
        observer.wait(f"{name}'s pods gone", lambda seen, name=name: seen[name].gone_pods >= REPLICAS, 60)
    api.close()
    observer.stop()
    return {"sixPodsMilliseconds": statistics.median(pods), "runningMilliseconds": statistics.median(running),
            "statusBehindMilliseconds": statistics.median(behind)}
