"""The networks of the comparison in TensorFlow's own operations: NETWORKS[name](batch, variant, replicas, precision)
is a training step.

With precision "bfloat16" layers compute on values that are cast to bfloat16, as under Keras' policy mixed_bfloat16. Variables, updates and
losses stay float32.
"""
import contextlib

import numpy as np
import tensorflow as tf


class OneReplica:
    """What data_parallel.py's peer does by a strategy: where variables are made, a step is run and gradients become their mean."""

    scope = contextlib.nullcontext

    def run(self, step, arguments=()):
        return step(*arguments)

    def mean(self, gradients):
        return gradients


def own_variable(values):
    """Each replica has its own values of it."""
    return tf.Variable(values, trainable=False, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN)


class Parameters:
    """Variables in the order in which a network asks for them: made on the first walk through it, the same ones on later walks. `dtype` is
    what layers compute in."""

    def __init__(self, precision="float32"):
        self.dtype = tf.as_dtype(precision)
        self.random = np.random.default_rng(1)
        self.trainable, self.decayed, self.moving = [], [], []
        self.rewind()

    def rewind(self):
        self.positions = {id(self.trainable): 0, id(self.moving): 0}

    def cast(self, x):
        return x if x.dtype == self.dtype else tf.cast(x, self.dtype)

    def get(self, values, kind, variable=tf.Variable):
        position = self.positions[id(kind)]
        self.positions[id(kind)] += 1
        if position == len(kind):
            kind.append(variable(values()))
        return kind[position]

    def weights(self, *shape, decayed=False):
        scale = (2 / int(np.prod(shape[:-1]))) ** 0.5
        made = len(self.trainable)
        variable = self.get(lambda: self.random.normal(0, scale, shape).astype(np.float32), self.trainable)
        if decayed and len(self.trainable) > made:
            self.decayed.append(variable)
        return variable

    def vector(self, size, value=0.0):
        return self.get(lambda: np.full(size, value, np.float32), self.trainable)

    def statistic(self, size, value):
        return self.get(lambda: np.full(size, value, np.float32), self.moving, own_variable)


def sgd(variables):
    def update(gradients):
        for variable, gradient in zip(variables, gradients):
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=0.025, delta=gradient)

    return update


def adadelta(variables):
    slots = [(tf.Variable(tf.zeros_like(variable)), tf.Variable(tf.zeros_like(variable))) for variable in variables]

    def update(gradients):
        for variable, (square, delta), gradient in zip(variables, slots, gradients):
            tf.raw_ops.ResourceApplyAdadelta(
                var=variable.handle, accum=square.handle, accum_update=delta.handle, lr=1.0, rho=0.95, epsilon=1e-7, grad=gradient)

    return update


def adam(variables):
    slots = [(tf.Variable(tf.zeros_like(variable)), tf.Variable(tf.zeros_like(variable))) for variable in variables]
    powers = own_variable(0.9), own_variable(0.999)

    def update(gradients):
        for variable, (mean, square), gradient in zip(variables, slots, gradients):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle, m=mean.handle, v=square.handle, beta1_power=powers[0], beta2_power=powers[1], lr=0.001, beta1=0.9,
                beta2=0.999, epsilon=1e-7, grad=gradient)
        powers[0].assign(powers[0] * 0.9)
        powers[1].assign(powers[1] * 0.999)

    return update


def classifier(network, image_shape, optimizer, l2=0.0):
    """`network(parameters, images)` gives the scores of 10 classes."""

    def build(batch, variant, replicas=OneReplica(), precision="float32"):
        parameters = Parameters(precision)
        images = tf.constant(parameters.random.random((batch, *image_shape), dtype=np.float32))
        labels = tf.constant(parameters.random.integers(0, 10, batch).astype(np.int32))
        with replicas.scope():
            network(parameters, parameters.cast(images))
            update = optimizer(parameters.trainable)

        def work(images, labels):
            parameters.rewind()
            with tf.GradientTape() as tape:
                scores = tf.cast(network(parameters, parameters.cast(images)), tf.float32)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))
                if l2:
                    loss += 2 * l2 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in parameters.decayed])
            update(replicas.mean(tape.gradient(loss, parameters.trainable)))
            return loss

        step = tf.function(lambda *batch: replicas.run(work, batch), jit_compile=variant == "xla")
        return lambda: step(images, labels).numpy()

    return build


def dense(parameters, x, units):
    return tf.nn.bias_add(tf.matmul(x, parameters.cast(parameters.weights(x.shape[-1], units))), parameters.cast(parameters.vector(units)))


def lenet5(parameters, x):
    """The scaling study's variant."""
    for filters in (20, 50):
        x = tf.nn.conv2d(x, parameters.cast(parameters.weights(5, 5, x.shape[-1], filters)), 1, "VALID")
        x = tf.nn.max_pool2d(tf.tanh(tf.nn.bias_add(x, parameters.cast(parameters.vector(filters)))), 2, 2, "VALID")
    x = tf.tanh(dense(parameters, tf.reshape(x, (x.shape[0], -1)), 500))
    return dense(parameters, x, 10)


def mnist_cnn(parameters, x):
    for filters in (32, 64):
        x = tf.nn.conv2d(x, parameters.cast(parameters.weights(3, 3, x.shape[-1], filters)), 1, "VALID")
        x = tf.nn.relu(tf.nn.bias_add(x, parameters.cast(parameters.vector(filters))))
    x = tf.nn.dropout(tf.nn.max_pool2d(x, 2, 2, "VALID"), 0.25)
    x = tf.nn.relu(dense(parameters, tf.reshape(x, (x.shape[0], -1)), 128))
    return dense(parameters, tf.nn.dropout(x, 0.5), 10)


def norm_relu(parameters, x):
    channels = x.shape[-1]
    gamma, beta = parameters.vector(channels, 1.0), parameters.vector(channels)
    moving_mean, moving_variance = parameters.statistic(channels, 0.0), parameters.statistic(channels, 1.0)
    y, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3, is_training=True)
    moving_mean.assign_sub(0.01 * (moving_mean - mean))
    moving_variance.assign_sub(0.01 * (moving_variance - variance))
    return tf.nn.relu(y)


def resnet56v2(parameters, x):
    def conv(x, filters, size, stride=1):
        kernel = parameters.weights(size, size, x.shape[-1], filters, decayed=True)
        return tf.nn.bias_add(tf.nn.conv2d(x, parameters.cast(kernel), stride, "SAME"), parameters.cast(parameters.vector(filters)))

    x = norm_relu(parameters, conv(x, 16, 3))
    width = 16
    for stage in range(3):
        outputs = width * 4 if stage == 0 else width * 2
        for block in range(6):
            stride = 2 if stage > 0 and block == 0 else 1
            y = norm_relu(parameters, x) if stage > 0 or block > 0 else x
            y = norm_relu(parameters, conv(y, width, 1, stride))
            y = norm_relu(parameters, conv(y, width, 3))
            y = conv(y, outputs, 1)
            x = (conv(x, outputs, 1, stride) if block == 0 else x) + y
        width = outputs
    return dense(parameters, tf.reduce_mean(norm_relu(parameters, x), (1, 2)), 10)


def ptb_lstm(batch, variant, replicas=OneReplica(), precision="float32"):
    """Embedding, two LSTM layers of 200 over 30 steps and scores of 10,000 words; the state goes from step to step."""
    steps, units, vocabulary, rate = 30, 200, 10000, 0.025
    random = np.random.default_rng(1)

    def weights(*shape):
        return tf.Variable(random.normal(0, 0.05, shape).astype(np.float32))

    def cast(x):
        return x if x.dtype == precision else tf.cast(x, precision)

    words = tf.constant(random.integers(0, vocabulary, (steps + 1, batch)).astype(np.int32))
    with replicas.scope():
        table, head, head_bias = weights(vocabulary, units), weights(units, vocabulary), tf.Variable(tf.zeros(vocabulary))
        layers = [(weights(units, 4 * units), weights(units, 4 * units), tf.Variable(tf.zeros(4 * units))) for _ in range(2)]
        state = [own_variable(tf.zeros((batch, units))) for _ in range(4)]

    def lstm(x, kernel, recurrent, bias, h, c):
        kernel, recurrent, bias, h, c = map(cast, (kernel, recurrent, bias, h, c))
        products = tf.reshape(tf.nn.bias_add(tf.matmul(tf.reshape(x, (-1, units)), kernel), bias), (steps, batch, 4 * units))
        outputs = []
        for product in tf.unstack(products):
            i, f, g, o = tf.split(product + tf.matmul(h, recurrent), 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            outputs.append(h)
        return tf.stack(outputs), h, c

    def work():
        with tf.GradientTape() as tape:
            x = cast(tf.nn.embedding_lookup(table, words[:steps]))
            after = []
            for number, parameters in enumerate(layers):
                x, h, c = lstm(x, *parameters, state[2 * number], state[2 * number + 1])
                after += [h, c]
            logits = tf.cast(tf.nn.bias_add(tf.matmul(tf.reshape(x, (-1, units)), cast(head)), cast(head_bias)), tf.float32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(words[1:], (-1,)), logits))
        dense = [head, head_bias, *(parameter for layer in layers for parameter in layer)]
        table_gradient, *gradients = replicas.mean(tape.gradient(loss, [table, *dense]))
        tf.raw_ops.ResourceScatterSub(resource=table.handle, indices=table_gradient.indices, updates=rate * table_gradient.values)
        sgd(dense)(gradients)
        for variable, value in zip(state, after):
            variable.assign(tf.cast(value, tf.float32))
        return loss

    step = tf.function(lambda: replicas.run(work), jit_compile=variant == "xla")
    return lambda: step().numpy()


NETWORKS = {
    "lenet5": classifier(lenet5, (28, 28, 1), sgd),
    "mnistCnn": classifier(mnist_cnn, (28, 28, 1), adadelta),
    "resnet56v2": classifier(resnet56v2, (32, 32, 3), adam, l2=1e-4),
    "ptbLstm": ptb_lstm,
}
