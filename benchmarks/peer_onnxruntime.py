"""onnxruntime on one network: prints the times of its runs as JSON. A peer of predict.py, in a process of its own for the memory.

    peer_onnxruntime.py NETWORK.onnx BATCH SECONDS
"""
import json
import resource
import sys
import time

import numpy
import onnxruntime

LEAST_CALLS = 20
TYPES = {"tensor(float)": numpy.float32, "tensor(uint8)": numpy.uint8, "tensor(int64)": numpy.int64}


def examples(inputs, batch):
    """Random bytes or tokens, one step of a sequence; zeros for states."""
    random = numpy.random.default_rng(1)
    return {each.name: (random.integers(0, 256, shape) if each.name == "input" else numpy.zeros(shape)).astype(TYPES[each.type])
            for each in inputs for shape in [[batch if i == 0 else extent if isinstance(extent, int) else 1 for i, extent in enumerate(each.shape)]]}  # fmt: skip


def main():
    path, batch, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = examples(session.get_inputs(), batch)
    next_states = [output.name for output in session.get_outputs() if output.name.endswith("_next")]
    wanted = ["probabilities", *next_states]

    def run_for(seconds):
        times, end = [], time.perf_counter() + seconds
        while len(times) < LEAST_CALLS or time.perf_counter() < end:
            start = time.perf_counter()
            _, *states = session.run(wanted, feeds)
            times.append(time.perf_counter() - start)
            feeds.update({name.removesuffix("_next"): state for name, state in zip(next_states, states, strict=True)})
        return sorted(times)

    run_for(seconds / 10)
    times = run_for(seconds)
    print(json.dumps({"calls": len(times), "medianMicroseconds": 1e6 * times[len(times) // 2], "p99Microseconds": 1e6 * times[len(times) * 99 // 100],
                      "bestMicroseconds": 1e6 * times[0], "maxRssBytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))  # fmt: skip


main()
