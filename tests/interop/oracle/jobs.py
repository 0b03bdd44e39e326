"""Random trainings: a network, an optimizer, batches, and the workers that share them."""
import network

CELLS = ("lstm", "gru", "simpleRnn")
ACTIVATIONS = ("linear", "tanh", "relu", "sigmoid")
CHANNELS = (1, 2, 5, 16, 20)


class Model:
    """Draws the layers one by one."""

    def __init__(self, random, dropout=False):
        self.random, self.dropout, self.layers = random, dropout, []

    def maybe(self, share=0.5):
        return self.random.random() < share

    def add(self, kind, options, inputs=None):
        name = f"{kind.lower()}{len(self.layers)}"
        self.layers.append({"name": name, kind: options, **({"inputs": inputs} if inputs else {})})
        return name

    def weights(self, **options):
        if self.maybe(0.25):
            options["useBias"] = False
        if self.maybe(0.25):
            options["kernelRegularizer"] = {"l2": self.random.choice((0.01, 0.001))}
        return options

    def something_between(self):
        kind = self.random.choice(("batchNormalization", "activation", "dropout", None, None))
        if kind == "batchNormalization":
            self.add(kind, {"momentum": self.random.choice((0.5, 0.9, 0.99)), "epsilon": self.random.choice((1e-3, 1e-2))})
        elif kind == "activation":
            self.add(kind, {"function": self.random.choice((*ACTIVATIONS, "softmax"))})
        elif kind == "dropout":
            self.add(kind, {"rate": self.random.choice((0.1, 0.5)) if self.dropout else 0})

    def dense(self, units):
        self.add("dense", self.weights(units=units, activation=self.random.choice(ACTIVATIONS)))

    def convolution(self, extents):
        padding = self.random.choice(("same", "valid"))
        size = [self.random.randint(1, 5 if padding == "same" else min(5, extent)) for extent in extents]
        strides = [self.random.choice((1, 1, 1, 2, 3)) for _ in "hw"]
        self.add("conv2d", self.weights(filters=self.random.choice(CHANNELS), kernelSize=size, strides=strides, padding=padding, activation=self.random.choice(ACTIVATIONS)))

    def pool(self, extents):
        size = [self.random.randint(1, min(3, extent)) for extent in extents]
        self.add(self.random.choice(("maxPool2d", "avgPool2d")), {"poolSize": size, "strides": self.random.randint(1, 2), "padding": self.random.choice(("same", "valid"))})

    def residual(self, channels):
        source = self.layers[-1]["name"]
        branch = self.add("conv2d", self.weights(filters=channels, kernelSize=self.random.choice((1, 3)), padding="same", activation="tanh"))
        self.add("add", {}, self.random.sample([source, branch], 2))

    def recurrent(self, sequences, stateful=False):
        options = self.weights(units=self.random.choice((1, 4, 16)), returnSequences=sequences)
        kind = self.random.choice(CELLS)
        if kind == "simpleRnn":
            options["activation"] = self.random.choice(("tanh", "sigmoid", "relu"))
        if self.maybe(0.3):
            return self.add("bidirectional", {"layer": {kind: options}, "mergeMode": self.random.choice(("concat", "sum"))})
        return self.add(kind, {**options, "stateful": stateful and self.maybe(0.7), "goBackwards": self.maybe(0.2)})

    def shape(self, shape):
        """Of the output so far."""
        return network.Network({"input": {"shape": shape}, "layers": self.layers, "loss": "meanSquaredError"}).output if self.layers else tuple(shape)

    def images(self):
        shape = self.random.choice(([1, 1, 1], [1, 7, 2], [6, 6, 1], [8, 8, 3], [5, 7, 4], [9, 8, 17]))
        for _ in range(self.random.randint(1, 3)):
            *extents, channels = self.shape(shape)
            self.random.choice((lambda: self.convolution(extents), lambda: self.pool(extents), lambda: self.layers and self.residual(channels)))()
            self.something_between()
        self.add(*self.random.choice((("flatten", {}), ("globalAveragePool2d", {}))))
        return shape

    def rows(self):
        shape = [self.random.choice((1, 2, 33, 130))]
        for _ in range(self.random.randint(0, 2)):
            self.dense(self.random.choice((1, 3, 16, 65)))
            self.something_between()
        return shape

    def sequences(self):
        shape = [self.random.choice((1, 2, 5)), self.random.choice((1, 3, 10))]
        for _ in range(self.random.randint(0, 2)):
            self.recurrent(sequences=True)
            self.something_between()
        self.recurrent(sequences=False)
        return shape

    def end(self, units, loss):
        activation = self.random.choice(("linear", "softmax") if loss == "softmaxCrossEntropy" else (*ACTIVATIONS, "softmax"))
        self.add("dense", self.weights(units=units, activation=activation))

    def of_numbers(self):
        shape = self.random.choice((self.images, self.rows, self.sequences))()
        loss = self.random.choice(("softmaxCrossEntropy", "meanSquaredError"))
        self.end(self.random.choice((1, 2, 3, 10)), loss)
        return {"input": {"shape": shape}, "layers": self.layers, "loss": loss}

    def of_tokens(self, vocabulary):
        self.add("embedding", {"outputDim": self.random.choice((1, 4, 16))})
        for _ in range(self.random.randint(1, 2)):
            self.recurrent(sequences=True, stateful=True)
            self.something_between()
        self.end(vocabulary, "softmaxCrossEntropy")
        return {"input": {"shape": [self.random.choice((1, 2, 5))], "vocabulary": vocabulary}, "layers": self.layers, "loss": "softmaxCrossEntropy"}


def optimizer(random):
    def sometimes(name, *values):
        return {name: random.choice(values)} if random.random() < 0.5 else {}

    name = random.choice(("sgd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "adamw"))
    options = {"name": name, "learningRate": random.choice((0.01, 0.05)) if name in ("sgd", "momentum", "nesterov") else 1.0 if name == "adadelta" else 0.002}
    options |= {
        "sgd": {"momentum": 0.9, **sometimes("nesterov", True)} if random.random() < 0.5 else {},
        "momentum": sometimes("momentum", 0.5, 0.95),
        "nesterov": sometimes("momentum", 0.5, 0.95),
        "adagrad": {**sometimes("initialAccumulator", 0.01, 0.5), **sometimes("epsilon", 1e-5, 0.1)},
        "adadelta": {**sometimes("rho", 0.5, 0.9), **sometimes("epsilon", 1e-3)},
        "rmsprop": {**sometimes("rho", 0.5, 0.99), **sometimes("momentum", 0.5), **sometimes("epsilon", 1e-3)},
        "adam": {**sometimes("beta1", 0, 0.5), **sometimes("beta2", 0.9, 0.9999), **sometimes("epsilon", 1e-3)},
        "adamw": {**sometimes("beta1", 0.95), **sometimes("epsilon", 1e-2)},
    }[name]
    options |= {**sometimes("weightDecay", 0.1, 0.01), **sometimes("clipNorm", 0.01, 0.1, 1)}
    if random.random() < 0.6:
        kind = random.choice(("constant", "step", "exponential", "cosine"))
        options["schedule"] = {"name": kind, **sometimes("warmupSteps", 2, 5)}
        if kind != "constant":
            options["schedule"] |= {"decaySteps": random.randint(1, 6), **sometimes("holdSteps", 1, 3)}
        options["schedule"] |= {"minimum": 0.001} if kind == "cosine" else {"decayRate": random.choice((0.5, 1.2))} if kind != "constant" else {}
    return options


def layout(random):
    """(ranks, fields of spec and of spec.training, the name): who computes a step's gradients."""
    ranks = random.choice((1, 1, 2, 3))
    strategies = {
        "local": ({"worker": {"replicas": 1}}, {}),
        "devices": ({"worker": {"replicas": 1}}, {"devices": ranks}),
        "sync": ({"ps": {"replicas": random.randint(1, 2)}, "worker": {"replicas": ranks}}, {"strategy": {"parameterServer": {"mode": "sync"}}}),
        "async": ({"ps": {"replicas": 2}, "worker": {"replicas": 1}}, {"strategy": {"parameterServer": {"mode": "async"}}}),
        "allReduce": ({"worker": {"replicas": ranks}}, {"strategy": {"allReduce": {"shardOptimizer": random.random() < 0.5}}}),
    }
    name = random.choice(("devices", "sync", "allReduce") if ranks > 1 else ("local", "local", "sync", "async"))
    return ranks, *strategies[name], name


def slices(examples, batch, ranks):
    """The steps of an epoch: for each the [begin, end) of every rank, as trainer/data/sampler.h says."""
    whole = batch * ranks
    bounds = [*range(0, examples, whole), examples]
    if batch > 1 and len(bounds) > 2 and bounds[-1] - bounds[-2] < ranks:
        bounds[-2] = examples - ranks  # the step before the last gives up a few
    return [[(begin + (end - begin) * rank // ranks, begin + (end - begin) * (rank + 1) // ranks) for rank in range(ranks)] for begin, end in zip(bounds, bounds[1:])]
