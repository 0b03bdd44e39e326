"""One replica of TensorFlow's own parameter-server job on the same digits, as its tutorials wrote it: between-graph replication, asynchronous SGD.

  peer_tensorflow_ps.py ROLE INDEX PS_HOSTS WORKER_HOSTS STEPS BATCH   ("-" for PS_HOSTS: no server, one process)

A worker prints one line of JSON: the seconds from the end of its first step to the end of its last
step, and the seconds before the first.
"""
import gzip
import json
import os
import pathlib
import resource
import sys
import time

BEGAN = time.monotonic()
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
DIGITS = pathlib.Path(__file__).resolve().parent.parent / "examples/data/mnist"


def digits():
    with gzip.open(DIGITS / "t10k-images-idx3-ubyte.gz") as file:
        images = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 28, 28, 1)[:9000]
    with gzip.open(DIGITS / "t10k-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)[:9000]
    return images.astype(numpy.float32) / 255.0, labels.astype(numpy.int64)


def variable(name, shape):
    return v1.get_variable(name, shape, initializer=v1.glorot_uniform_initializer() if len(shape) > 1 else v1.zeros_initializer())


def loss_of(images, labels):
    """The study's LeNet-5: 20@5x5 and 50@5x5 with tanh and 2x2 pooling, dense 500 with tanh, dense 10."""
    x = images
    for number, (channels, filters) in enumerate(((1, 20), (20, 50)), 1):
        x = tf.nn.conv2d(x, variable(f"conv{number}/kernel", [5, 5, channels, filters]), 1, "VALID") + variable(f"conv{number}/bias", [filters])
        x = tf.nn.max_pool2d(tf.tanh(x), 2, 2, "VALID")
    x = tf.reshape(x, [-1, 800])
    x = tf.tanh(tf.matmul(x, variable("dense1/kernel", [800, 500])) + variable("dense1/bias", [500]))
    x = tf.matmul(x, variable("dense2/kernel", [500, 10])) + variable("dense2/bias", [10])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("peer_tensorflow_ps: the other replicas did not come")
        time.sleep(0.05)


def main():
    role, index, ps_hosts, worker_hosts, steps, batch = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6])
    v1.disable_eager_execution()
    # Without the filter a session waits for every other worker, finished ones included.
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1,
                            device_filters=[] if ps_hosts == "-" else ["/job:ps", f"/job:worker/task:{index}"])
    target, device = "", None
    if ps_hosts != "-":
        cluster = tf.train.ClusterSpec({"ps": ps_hosts.split(","), "worker": worker_hosts.split(",")})
        server = tf.distribute.Server(cluster, job_name=role, task_index=index, config=config)
        if role == "ps":
            server.join()
        target = server.target
        device = v1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")
    with v1.device(device):
        global_step = v1.train.get_or_create_global_step()
        images = v1.placeholder(tf.float32, [None, 28, 28, 1])
        labels = v1.placeholder(tf.int64, [None])
        loss = loss_of(images, labels)
        train = v1.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=global_step)
        started = v1.get_variable("started", [], tf.int32, initializer=v1.zeros_initializer(), trainable=False)
        start = v1.assign_add(started, 1, use_locking=True)
        missing = v1.report_uninitialized_variables()
        initialise = v1.global_variables_initializer()
    workers = len(worker_hosts.split(",")) if ps_hosts != "-" else 1
    xs, ys = digits()
    order = numpy.random.default_rng(index).permutation(len(xs))
    with v1.Session(target, config=config) as session:
        if index == 0:
            session.run(initialise)
        wait_until(lambda: session.run(missing).size == 0)
        for step in range(steps + 1):
            at = numpy.take(order, range(step * batch, (step + 1) * batch), mode="wrap")
            session.run(train, {images: xs[at], labels: ys[at]})
            if step == 0:
                first = time.monotonic()
                session.run(start)
                wait_until(lambda: session.run(started) == workers)  # so that they train at the same time
                begin = time.monotonic()
        seconds = time.monotonic() - begin
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "steps": steps, "firstStepSeconds": first - BEGAN, "cpuSeconds": usage.ru_utime + usage.ru_stime,
                      "maxRssBytes": usage.ru_maxrss * 1024}), flush=True)


main()
