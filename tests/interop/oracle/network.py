"""A model of a job file by PyTorch: its parameters, its output, its loss. Ops are those of torch_ops."""
import math

import numpy
import torch
import torch.nn.functional as F
from torch_ops import Ops

GATES = {"lstm": 4, "gru": 3, "simpleRnn": 1}
CELLS = {"lstm": "lstm", "gru": "gru", "simpleRnn": "rnn"}


def pair(value):
    return list(value) if isinstance(value, (list, tuple)) else [value, value]


def activate(x, function):
    return x.softmax(-1) if function == "softmax" else Ops(False, True, 1).activate({"function": "identity" if function == "linear" else function}, x)


class Network:
    """Every layer has a name. `shapes` has the parameters by name, `output` the shape of one output."""

    def __init__(self, model):
        self.model, self.shapes, self.penalties = model, {}, {}
        self.layers = [(layer["name"], *next((kind, layer[kind]) for kind in layer if kind not in ("name", "inputs")), layer.get("inputs")) for layer in model["layers"]]
        shape = model["input"]["shape"]
        zeros = torch.zeros(1, *shape, dtype=torch.long) if "vocabulary" in model["input"] else torch.zeros(1, *shape)
        self.output = tuple(self.forward(None, zeros)[0].shape[1:])

    def parameter(self, values, name, *shape, l2=None):
        """The value; with `values` None the shape is noted, and zeros stand for the value."""
        if values is not None:
            return values[name]
        self.shapes[name] = shape
        if l2:
            self.penalties[name] = l2["l2"]
        return torch.zeros(shape)

    def start_values(self, random):
        """Not those of the engine: biases and moving statistics are no zeros and ones either."""
        values = {}
        for name, shape in self.shapes.items():
            part = name.rpartition("/")[2]
            if part in ("gamma", "moving_variance"):
                values[name] = random.uniform(0.5, 1.5, shape)
            elif part in ("beta", "moving_mean", "bias"):
                values[name] = 0.3 * random.normal(size=shape)
            else:
                values[name] = random.normal(size=shape) / math.sqrt(math.prod(shape[:-1]))
        return {name: value.astype(numpy.float32) for name, value in values.items()}

    def forward(self, values, x, training=True, state=None, drop=None):
        """Output and next moving statistics. Stateful layers go on with the dict `state`, and leave theirs there. `drop(n, x)` has the mask of the n-th dropout."""
        outputs, moving, dropouts = {"input": x}, {}, 0
        for name, kind, options, inputs in self.layers:
            terms = [outputs[i] for i in inputs] if inputs else [x]
            if kind == "dropout":
                mask = drop(dropouts, x) if training and drop else 1
                x, dropouts = Ops(False, training and drop is not None, mask).dropout(options, x), dropouts + 1
            elif kind == "batchNormalization":
                x, *following = self.batch_norm(values, name, options, terms[0], training)
                moving.update(zip((f"{name}/moving_mean", f"{name}/moving_variance"), following))
            else:
                x = getattr(self, kind)(values, name, options, *terms, state=state)
            outputs[name] = x
        return x, moving

    def loss(self, values, output, wanted):
        if self.model["loss"] == "softmaxCrossEntropy":
            loss = F.cross_entropy(output.reshape(-1, output.shape[-1]), wanted.reshape(-1))
        else:
            loss = F.mse_loss(output, wanted)
        return loss + sum(l2 * values[name].square().sum() for name, l2 in self.penalties.items())

    # The layers.
    def finish(self, values, name, options, y):
        if options.get("useBias", True):
            y = y + self.parameter(values, f"{name}/bias", y.shape[-1])
        function = options.get("activation", "linear")
        last = name == self.layers[-1][0] and self.model["loss"] == "softmaxCrossEntropy"
        return y if function == "softmax" and last else activate(y, function)

    def kernel(self, values, name, options, *shape):
        return self.parameter(values, f"{name}/kernel", *shape, l2=options.get("kernelRegularizer"))

    def dense(self, values, name, options, x, state):
        return self.finish(values, name, options, x @ self.kernel(values, name, options, x.shape[-1], options["units"]))

    def conv2d(self, values, name, options, x, state):
        kernel = self.kernel(values, name, options, *pair(options["kernelSize"]), x.shape[-1], options["filters"])
        node = {"strides": pair(options.get("strides", 1)), "padding": options.get("padding", "valid")}
        return self.finish(values, name, options, Ops(False, True, 1).conv2d(node, x, kernel))

    def pooled(self, op, options, x):
        size = pair(options.get("poolSize", 2))
        return op({"size": size, "strides": pair(options.get("strides", size)), "padding": options.get("padding", "valid")}, x)

    def maxPool2d(self, values, name, options, x, state):
        return self.pooled(Ops(False, True, 1).max_pool, options, x)

    def avgPool2d(self, values, name, options, x, state):
        return self.pooled(Ops(False, True, 1).avg_pool, options, x)

    def globalAveragePool2d(self, values, name, options, x, state):
        return x.mean((1, 2))

    def batch_norm(self, values, name, options, x, training):
        parts = [self.parameter(values, f"{name}/{part}", x.shape[-1]) for part in ("gamma", "beta", "moving_mean", "moving_variance")]
        keep, epsilon = options.get("momentum", 0.99), options.get("epsilon", 1e-3)
        rows = x.reshape(-1, x.shape[-1])
        mean, variance = (rows.mean(0), rows.var(0, unbiased=False)) if training else parts[2:]
        y = (x - mean) / (variance + epsilon).sqrt() * parts[0] + parts[1]
        return y, keep * parts[2] + (1 - keep) * mean, keep * parts[3] + (1 - keep) * variance

    def flatten(self, values, name, options, x, state):
        return x.flatten(1)

    def reshape(self, values, name, options, x, state):
        return x.reshape(len(x), *options["targetShape"])

    def add(self, values, name, options, *terms, state):
        return torch.stack(terms).sum(0)

    def activation(self, values, name, options, x, state):
        return activate(x, options["function"])

    def embedding(self, values, name, options, ids, state):
        return F.embedding(ids, self.parameter(values, f"{name}/embeddings", self.model["input"]["vocabulary"], options["outputDim"]))

    def recurrent(self, kind, values, name, options, x, state, reverse=False):
        units, gates = options["units"], GATES[kind] * options["units"]
        z = x @ self.kernel(values, name, options, x.shape[-1], gates)
        kernel = self.parameter(values, f"{name}/recurrent_kernel", units, gates)
        biased, inputs = options.get("useBias", True), []
        if biased and kind == "gru":
            inputs = [self.parameter(values, f"{name}/bias", 2, gates)]
        elif biased:
            z = z + self.parameter(values, f"{name}/bias", gates)
        carries = options.get("stateful", False) and state is not None
        if carries and name in state:
            inputs += state[name]
        node = {"cell": CELLS[kind], "function": {"linear": "identity"}.get(options.get("activation"), options.get("activation", "tanh")),
                "bias": biased and kind == "gru", "reverse": reverse or options.get("goBackwards", False)}  # fmt: skip
        y, h, _, c = Ops(False, True, 1).recurrent(node, z, kernel, *inputs)
        if carries:
            state[name] = [h.detach(), c.detach()] if kind == "lstm" else [h.detach()]
        return y if options.get("returnSequences", False) else h

    def lstm(self, values, name, options, x, state):
        return self.recurrent("lstm", values, name, options, x, state)

    def gru(self, values, name, options, x, state):
        return self.recurrent("gru", values, name, options, x, state)

    def simpleRnn(self, values, name, options, x, state):
        return self.recurrent("simpleRnn", values, name, options, x, state)

    def bidirectional(self, values, name, options, x, state):
        ((kind, inner),) = options["layer"].items()
        both = [self.recurrent(kind, values, f"{name}/{way}", inner, x, state, way == "backward") for way in ("forward", "backward")]
        return both[0] + both[1] if options.get("mergeMode", "concat") == "sum" else torch.cat(both, -1)
