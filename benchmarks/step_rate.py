"""How fast a peer's training step is: one way of measuring for all of them."""
import statistics
import time


def images_per_second(step, batch, seconds):
    for _ in range(5):
        step()
    times, processor_times = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start, processor_start = time.perf_counter(), time.process_time()
        step()
        times.append(time.perf_counter() - start)
        processor_times.append(time.process_time() - processor_start)
    return {"median": batch / statistics.median(times), "best": batch / min(times), "cpu": batch / statistics.median(processor_times)}
