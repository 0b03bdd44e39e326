"""A random graph and what PyTorch computes from it."""
import math
import random

import numpy
import torch
from torch_ops import FUNCTIONS, Ops


class Case:
    """A random graph: run_ops gets its nodes, PyTorch computes them as they are added. A node's first output bears its name, others "name:1"."""

    def __init__(self, seed, bfloat16):
        self.random = random.Random(seed)
        self.numbers = numpy.random.default_rng(seed)
        self.bfloat16 = bfloat16
        self.nodes, self.fed, self.outputs, self.gradients, self.next, self.learned = [], {}, [], [], {}, []
        self.fuse = self.random.random() < 0.7
        self.values = {}

    # Draws.
    def size(self, most, least=1):
        """Small ones as often as large ones."""
        return round(math.exp(self.random.uniform(math.log(least), math.log(most))))

    def maybe(self, share=0.5):
        return self.random.random() < share

    def function(self):
        return self.random.choice(list(FUNCTIONS))

    def window(self, most=4):
        return {"size": [self.random.randint(1, most) for _ in "hw"], "strides": [self.random.randint(1, 3) for _ in "hw"], "padding": self.random.choice(("valid", "same"))}

    # Sources.
    def source(self, op, value, **attributes):
        name = f"{op}{len(self.nodes)}"
        self.nodes.append({"name": name, "op": op, "shape": list(value.shape), **attributes})
        self.fed[name] = value
        self.values[name] = torch.from_numpy(value)
        return name

    def numbers_of(self, shape, scale=1.0):
        return (scale * self.numbers.uniform(-1, 1, shape)).astype("f")

    def input(self, *shape, gradient=True, training=False):
        name = self.source("input", self.numbers_of(shape), training=training)
        if gradient:
            self.gradients.append(name)
            self.values[name].requires_grad_()
        return name

    def integers(self, *shape, limit, training=False):
        return self.source("integers", self.numbers.integers(0, limit, shape, numpy.int32), limit=limit, training=training)

    def parameter(self, *shape, scale=1.0, value=None, learns=0.9):
        """Trainable with the probability `learns`, with a value of its own never."""
        trainable = value is None and self.maybe(learns)
        name = self.source("parameter", self.numbers_of(shape, scale) if value is None else value.astype("f"), trainable=trainable)
        if trainable:
            self.learned.append(name)
            self.values[name].requires_grad_()
        return name

    def weights(self, *shape):
        return self.parameter(*shape, scale=1.5 / math.sqrt(math.prod(shape[:-1])))

    # Ops.
    def shape(self, name):
        return list(self.values[name].shape)

    def node(self, op, *inputs, **attributes):
        name = f"{op}{len(self.nodes)}"
        self.nodes.append({"name": name, "op": op, "inputs": list(inputs), **attributes})
        self.evaluate(self.nodes[-1], self.values, Ops(self.bfloat16, training=True, mask=1))
        return name

    @staticmethod
    def evaluate(node, values, ops):
        made = getattr(ops, node["op"])(node, *(values[name] for name in node["inputs"]))
        for i, value in enumerate(made if isinstance(made, (tuple, list)) else [made]):
            values[f"{node['name']}:{i}" if i else node["name"]] = value

    def dense(self, x, units):
        return self.node("dense", x, self.weights(self.shape(x)[-1], units))

    def conv2d(self, x, size, filters, strides, padding):
        return self.node("conv2d", x, self.weights(*size, self.shape(x)[-1], filters), strides=strides, padding=padding)

    def bias(self, x):
        return self.node("bias", x, self.parameter(self.shape(x)[-1], scale=0.5))

    def activate(self, x, function=None):
        return self.node("activate", x, function=function or self.function())

    def batch_norm(self, x):
        channels = self.shape(x)[-1]
        mean, variance = self.parameter(value=self.numbers.normal(size=channels)), self.parameter(value=self.numbers.uniform(0.3, 2, channels))
        momentum, epsilon = (self.random.choice(numbers) for numbers in ((0.99, 0.9, 0.5), (1e-3, 1e-5)))
        name = self.node("batch_norm", x, self.parameter(channels), self.parameter(channels), mean, variance, momentum=momentum, epsilon=epsilon)
        self.next = {**self.next, mean: f"{name}:1", variance: f"{name}:2"}
        return name

    def output(self, name):
        self.outputs.append(name)
        return name

    def loss(self, name):
        """A loss that is there."""
        self.nodes[-1]["training"] = True
        self.last = self.output(name)

    def squared_loss(self, y):
        """The mean squared difference of y from random numbers."""
        self.output(y)
        target = self.input(*self.shape(y), gradient=False, training=True)
        self.loss(self.node("mean_squared_error", y, target))

    # What PyTorch says.
    def description(self):
        return {"nodes": self.nodes, "outputs": self.outputs, "gradients": self.gradients, "next": self.next, "loss": self.last, "fuse": self.fuse}

    def exact(self):
        """The same in float64."""
        torch.set_default_dtype(torch.float64)
        try:
            return self.expected()
        finally:
            torch.set_default_dtype(torch.float32)

    def expected(self, mask=None):
        """By the names of run_ops."""
        leaves = {name: self.values[name] for name in self.fed}
        values = self.values
        if torch.get_default_dtype() == torch.float64:
            leaves = {name: value.detach().double().requires_grad_(value.requires_grad) if value.is_floating_point() else value for name, value in leaves.items()}
        if mask is not None or torch.get_default_dtype() == torch.float64:
            values = self.run(leaves, training=True, mask=1 if mask is None else mask)
        wanted = {f"out/{name}": values[name] for name in self.outputs}
        sources = self.gradients + self.learned
        gradients = torch.autograd.grad(values[self.last], [leaves[name] for name in sources])
        for name, gradient in zip(sources, gradients):
            wanted[f"out/gradients/{name}" if name in self.gradients else f"result/{name}"] = gradient
        wanted.update({f"result/{parameter}": values[name] for parameter, name in self.next.items()})
        with torch.no_grad():
            inferred = self.run(leaves, training=False)
        wanted.update({f"inference/{name}": inferred[name] for name in self.outputs if name in inferred})
        return {name: value.detach().numpy() for name, value in wanted.items()}

    def run(self, leaves, training, mask=1):
        values, ops = dict(leaves), Ops(self.bfloat16, training, mask)
        for node in self.nodes:
            if "inputs" in node and (training or not node.get("training")):
                self.evaluate(node, values, ops)
        return values
