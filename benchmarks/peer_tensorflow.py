"""LeNet-5 (the scaling study's variant): whole training steps by TensorFlow on one core, as JSON: images per second by batch."""
import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from step_rate import images_per_second  # noqa: E402


def build(batch, xla):
    random = np.random.default_rng(1)

    def weights(*shape):
        fan_in = int(np.prod(shape[:-1]))
        return tf.Variable(random.normal(0, (2 / fan_in) ** 0.5, shape).astype(np.float32))

    variables = [weights(5, 5, 1, 20), tf.Variable(tf.zeros(20)), weights(5, 5, 20, 50), tf.Variable(tf.zeros(50)),
                 weights(800, 500), tf.Variable(tf.zeros(500)), weights(500, 10), tf.Variable(tf.zeros(10))]
    images = tf.constant(random.random((batch, 28, 28, 1), dtype=np.float32))
    labels = tf.constant(random.integers(0, 10, batch).astype(np.int32))

    @tf.function(jit_compile=xla)
    def step(images, labels):
        with tf.GradientTape() as tape:
            y = tf.nn.max_pool2d(tf.tanh(tf.nn.bias_add(tf.nn.conv2d(images, variables[0], 1, "VALID"), variables[1])), 2, 2, "VALID")
            y = tf.nn.max_pool2d(tf.tanh(tf.nn.bias_add(tf.nn.conv2d(y, variables[2], 1, "VALID"), variables[3])), 2, 2, "VALID")
            y = tf.tanh(tf.nn.bias_add(tf.matmul(tf.reshape(y, (batch, 800)), variables[4]), variables[5]))
            logits = tf.nn.bias_add(tf.matmul(y, variables[6]), variables[7])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.025 * gradient)
        return loss

    return lambda: step(images, labels).numpy()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    result = {"tensorflow": {}, "tensorflow xla": {}}
    for batch in map(int, args.batches.split(",")):
        result["tensorflow"][batch] = images_per_second(build(batch, False), batch, args.seconds)
        result["tensorflow xla"][batch] = images_per_second(build(batch, True), batch, args.seconds)
    print(json.dumps({"version": tf.__version__, "rates": result}))


if __name__ == "__main__":
    main()
