"""How fast a peer's training step is and what memory it takes: one way of measuring for all of them."""
import argparse
import json
import resource
import statistics
import time

LEAST_STEPS = 3


def measure(step, batch, seconds):
    """Examples a second: by the median step, by the fastest one, and by the median step's processor time."""
    for _ in range(LEAST_STEPS):
        step()
    times, processor_times = [], []
    end = time.perf_counter() + seconds
    while len(times) < LEAST_STEPS or time.perf_counter() < end:
        start, processor_start = time.perf_counter(), time.process_time()
        step()
        times.append(time.perf_counter() - start)
        processor_times.append(time.process_time() - processor_start)
    return {"median": batch / statistics.median(times), "best": batch / min(times), "cpu": batch / statistics.median(processor_times)}


def measure_replica(step, steps):
    """Of a replica that keeps step with others: seconds from the end of a step to that of the next, and processor seconds of a step."""
    for _ in range(LEAST_STEPS):
        step()
    ends, processor_start = [time.perf_counter()], time.process_time()
    for _ in range(steps):
        step()
        ends.append(time.perf_counter())
    return {"secondsPerStep": statistics.median(end - start for start, end in zip(ends, ends[1:])),
            "cpuSecondsPerStep": (time.process_time() - processor_start) / steps}


def replica_arguments():
    """Of a script that is one replica of data_parallel.py. One host: it is alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--hosts", required=True, help="with commas, by rank")
    args = parser.parse_args()
    args.hosts = args.hosts.split(",")
    return args


def main(networks, version, variants):
    """One measurement of one network as a line of JSON. `networks`: name -> function of (batch, variant, precision=…) that gives a training
    step, itself a function that returns the loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, choices=networks)
    parser.add_argument("--variant", required=True, choices=variants)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    rate = measure(networks[args.model](args.batch, args.variant, precision=args.precision), args.batch, args.seconds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"version": version, "rate": rate, "maxRssBytes": memory}))
