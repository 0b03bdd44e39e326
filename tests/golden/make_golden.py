#!/usr/bin/env python3
"""Writes the golden files that tests hold layers and optimizers against, with PyTorch and Keras as the judges.

    python3 -m venv venv && venv/bin/pip install -r tests/golden/requirements.txt
    venv/bin/python tests/golden/make_golden.py        # writes *.safetensors beside this script

layers.safetensors      for each case of a model (its JSON stands in the file's metadata under the case's name): a batch, start values, and what
                        one training step makes of them: loss, output and every parameter's gradient. Computed in float64, stored as float32.
training.safetensors    a small convolutional network trained for 20 steps: start values, batches, the loss of each step, the last values.
residual.safetensors    the same for a residual network with batch normalisation (Keras' moving statistics: the biased variance, which is not
                        PyTorch's), strided and 1x1 convolutions, global average pool and penalties on kernels.
recurrent.safetensors   as layers.safetensors, for embeddings and recurrent layers, which Keras' own layers compute.
optimizers.safetensors  ten steps of each optimizer by Keras' formulas (its JSON stands in the metadata), and PyTorch's where they are the same.
"""

import json
import os
import pathlib

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)


def pair(value):
    return tuple(value) if isinstance(value, list) else (value, value)


def same_padding(extent, size, stride):
    """TensorFlow's: ceil(extent / stride) outputs, the smaller half of the padding before."""
    total = max((-(-extent // stride) - 1) * stride + size - extent, 0)
    return total // 2, total - total // 2


def padded(x, size, stride, padding, value):
    """x is NCHW; what it gets around it for `padding`."""
    if padding == "valid":
        return x
    top, bottom = same_padding(x.shape[2], size[0], stride[0])
    left, right = same_padding(x.shape[3], size[1], stride[1])
    return F.pad(x, (left, right, top, bottom), value=value)


def activate(x, name):
    return {
        "linear": lambda: x,
        "tanh": lambda: torch.tanh(x),
        "relu": lambda: torch.relu(x),
        "sigmoid": lambda: torch.sigmoid(x),
        "softmax": lambda: torch.softmax(x, -1),
    }[name]()


def is_moving(name):
    return name.rpartition("/")[2].startswith("moving_")


def batch_norm(x, name, options, parameter):
    """Normalised over all axes but the last by the batch's own mean and (biased) variance; the moving ones are changed in place."""
    momentum, epsilon = options.get("momentum", 0.99), options.get("epsilon", 1e-3)
    gamma, beta, moving_mean, moving_variance = (
        parameter(f"{name}/{part}", (x.shape[-1],)) for part in ("gamma", "beta", "moving_mean", "moving_variance")
    )
    rows = x.reshape(-1, x.shape[-1])
    mean, variance = rows.mean(0), rows.var(0, unbiased=False)
    y = F.batch_norm(rows, None, None, gamma, beta, training=True, eps=epsilon).reshape(x.shape)
    for moving, value in ((moving_mean, mean), (moving_variance, variance)):
        moving.copy_(momentum * moving + (1 - momentum) * value.detach())
    return y


def recurrent(x, kind, name, options, backwards, parameter):
    """Keras' own layer over x [batch, steps, features]; what a step gives stays at its step, also of a layer that goes backwards."""
    layers = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "simpleRnn": keras.layers.SimpleRNN}
    sequences = options.get("returnSequences", False)
    more = {"activation": options["activation"]} if "activation" in options else {}
    layer = layers[kind](
        options["units"],
        return_sequences=sequences,
        use_bias=options.get("useBias", True),
        go_backwards=backwards,
        unroll=True,
        dtype="float64",
        **more,
    )
    layer.build(tuple(x.shape))
    weights = [parameter(f"{name}/{variable.name}", tuple(variable.shape)) for variable in layer.trainable_variables]
    y, _ = layer.stateless_call(weights, [variable.value for variable in layer.non_trainable_variables], x)
    return y.flip(1) if sequences and backwards else y


def stateful_lstm(x, name, options, parameter, state):
    """Hochreiter and Schmidhuber's layer with forget gates over x [batch, steps, features], written out. Its four gates stand side by side as
    Keras has them: input, forget, cell, output. It begins with what the last call left in `state` and leaves its own there, cut off from
    the gradient."""
    units = options["units"]
    kernel, recurrent_kernel, bias = (
        parameter(f"{name}/{part}", shape)
        for part, shape in (("kernel", (x.shape[-1], 4 * units)), ("recurrent_kernel", (units, 4 * units)), ("bias", (4 * units,)))
    )
    h, c = state[name] if name in state else (x.new_zeros(x.shape[0], units), x.new_zeros(x.shape[0], units))
    outputs = []
    for x_t in x.unbind(1):
        i, f, g, o = (x_t @ kernel + h @ recurrent_kernel + bias).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    state[name] = (h.detach(), c.detach())
    return torch.stack(outputs, 1) if options.get("returnSequences", False) else h


def penalties(model, values):
    """The penalty that the layers' kernelRegularizer adds to the loss; such layers have a name."""
    total = 0.0
    for entry in model["layers"]:
        for options in entry.values() if isinstance(entry, dict) else ():
            if isinstance(options, dict) and "kernelRegularizer" in options:
                total = total + options["kernelRegularizer"]["l2"] * values[entry["name"] + "/kernel"].square().sum()
    return total


def input_type(model):
    return torch.long if "vocabulary" in model["input"] else torch.float64


def parameters_of(model):
    """Start values by name, found by running the network once on zeros."""
    values = {}

    def make(name, shape):
        scale = 1.0 / np.sqrt(max(1, int(np.prod(shape[:-1]))))
        value = torch.randn(shape) * scale
        values[name] = value.abs() if is_moving(name) else value.requires_grad_()
        return values[name]

    forward(model, torch.zeros([1] + model["input"]["shape"], dtype=input_type(model)), make, lambda stream, x, rate: x)
    return values


def forward(model, x, parameter, drop=None, state=None):
    """The output of a model as the job file describes it; tensors are NHWC, kernels HWIO. `parameter(name,
    shape)` gives the values, `drop(stream, x, rate)` does the stream-th dropout. Stateful layers go
    on with the values in the dict `state` (None: zeros)."""
    values = {"input": x}
    previous = "input"
    counts = {}
    drops = 0
    for entry in model["layers"]:
        entry = {entry: {}} if isinstance(entry, str) else entry
        kind = next(key for key in entry if key not in ("name", "inputs"))
        options = entry[kind]
        if "name" in entry:
            name = entry["name"]
        else:
            count = counts.get(kind, 0)
            counts[kind] = count + 1
            name = kind if count == 0 else f"{kind}_{count}"
        inputs = [values[i] for i in entry.get("inputs", [previous])]
        x = inputs[0]
        if kind == "conv2d":
            size, stride = pair(options["kernelSize"]), pair(options.get("strides", 1))
            kernel = parameter(f"{name}/kernel", (*size, x.shape[-1], options["filters"]))
            y = padded(x.permute(0, 3, 1, 2), size, stride, options.get("padding", "valid"), 0.0)
            y = F.conv2d(y, kernel.permute(3, 2, 0, 1), stride=stride).permute(0, 2, 3, 1)
            if options.get("useBias", True):
                y = y + parameter(f"{name}/bias", (options["filters"],))
            y = activate(y, options.get("activation", "linear"))
        elif kind == "dense":
            y = x @ parameter(f"{name}/kernel", (x.shape[-1], options["units"]))
            if options.get("useBias", True):
                y = y + parameter(f"{name}/bias", (options["units"],))
            y = activate(y, options.get("activation", "linear"))
        elif kind == "maxPool2d":
            size = pair(options.get("poolSize", 2))
            stride = pair(options.get("strides", list(size)))
            y = padded(x.permute(0, 3, 1, 2), size, stride, options.get("padding", "valid"), -torch.inf)
            y = F.max_pool2d(y, size, stride).permute(0, 2, 3, 1)
        elif kind == "avgPool2d":
            size = pair(options.get("poolSize", 2))
            stride = pair(options.get("strides", list(size)))
            planes = x.permute(0, 3, 1, 2)
            padding = options.get("padding", "valid")
            total = F.avg_pool2d(padded(planes, size, stride, padding, 0.0), size, stride)
            inside = F.avg_pool2d(padded(torch.ones_like(planes), size, stride, padding, 0.0), size, stride)
            y = (total / inside).permute(0, 2, 3, 1)
        elif kind == "embedding":
            rows = options.get("inputDim", model["input"]["vocabulary"])
            y = F.embedding(x, parameter(f"{name}/embeddings", (rows, options["outputDim"])))
        elif kind == "lstm" and options.get("stateful", False):
            y = stateful_lstm(x, name, options, parameter, {} if state is None else state)
        elif kind in ("lstm", "gru", "simpleRnn"):
            y = recurrent(x, kind, name, options, options.get("goBackwards", False), parameter)
        elif kind == "bidirectional":
            ((inner, arguments),) = options["layer"].items()
            both = [recurrent(x, inner, f"{name}/{way}", arguments, way == "backward", parameter) for way in ("forward", "backward")]
            y = both[0] + both[1] if options.get("mergeMode", "concat") == "sum" else torch.cat(both, -1)
        elif kind == "globalAveragePool2d":
            y = x.mean((1, 2))
        elif kind == "batchNormalization":
            y = batch_norm(x, name, options, parameter)
        elif kind == "flatten":
            y = x.reshape(x.shape[0], -1)
        elif kind == "reshape":
            y = x.reshape(x.shape[0], *options["targetShape"])
        elif kind == "add":
            y = sum(inputs)
        elif kind == "activation":
            y = activate(x, options["function"])
        elif kind == "dropout":
            y = drop(drops, x, options["rate"])
            drops += 1
        else:
            raise ValueError(kind)
        values[name] = y
        previous = name
    return values[previous]


def step(model, values, x, wanted, drop=None, state=None):
    """Loss and output; gradients are left in the parameters."""
    output = forward(model, x, lambda name, shape: values[name], drop, state)
    if model["loss"] == "softmaxCrossEntropy":
        loss = F.cross_entropy(output.reshape(-1, output.shape[-1]), wanted.reshape(-1))
    else:
        loss = F.mse_loss(output, wanted)
    loss = loss + penalties(model, values)
    for value in values.values():
        value.grad = None
    loss.backward()
    return loss, output


def batch_for(model, values, batch):
    shape = [batch] + model["input"]["shape"]
    x = torch.randint(model["input"]["vocabulary"], shape) if "vocabulary" in model["input"] else torch.randn(shape)
    output = forward(model, x, lambda name, shape: values[name])
    if model["loss"] == "softmaxCrossEntropy":
        return x, torch.randint(output.shape[-1], output.shape[:-1])
    return x, torch.randn(output.shape)


def model(shape, layers, loss="softmaxCrossEntropy"):
    return {"input": {"shape": shape}, "layers": layers, "loss": loss}


def conv(**options):
    return {"conv2d": options}


# Each case has a layer before the one that it is about, so that the gradient by that one's input is held too.
BEFORE = conv(filters=3, kernelSize=1, activation="tanh")
HEAD = ["flatten", {"dense": {"units": 4}}]
LAYER_CASES = {
    "conv valid": (5, model([7, 6, 2], [BEFORE, conv(filters=5, kernelSize=3), *HEAD])),
    "conv same": (3, model([5, 6, 2], [BEFORE, conv(filters=4, kernelSize=[3, 5], padding="same", activation="relu"), *HEAD])),
    "conv stride valid": (4, model([9, 8, 1], [BEFORE, conv(filters=4, kernelSize=[3, 2], strides=[2, 3]), *HEAD])),
    "conv stride same": (4, model([7, 8, 1], [BEFORE, conv(filters=4, kernelSize=3, strides=2, padding="same"), *HEAD])),
    "conv one by one without bias": (17, model([3, 3, 5], [BEFORE, conv(filters=6, kernelSize=1, useBias=False), *HEAD])),
    "conv pool tanh": (2, model([8, 8, 1], [conv(filters=3, kernelSize=3, activation="tanh"), "maxPool2d", *HEAD])),
    "max pool overlapping": (3, model([7, 7, 2], [BEFORE, {"maxPool2d": {"poolSize": 3, "strides": 2}}, *HEAD])),
    "max pool same": (3, model([5, 6, 2], [BEFORE, {"maxPool2d": {"poolSize": 3, "strides": 2, "padding": "same"}}, *HEAD])),
    "avg pool": (3, model([6, 6, 2], [BEFORE, {"avgPool2d": {"poolSize": [2, 3]}}, *HEAD])),
    "avg pool same": (3, model([5, 7, 2], [BEFORE, {"avgPool2d": {"poolSize": 3, "strides": 2, "padding": "same"}}, *HEAD])),
    "dense tanh": (16, model([7], [{"dense": {"units": 9, "activation": "tanh"}}, {"dense": {"units": 5}}])),
    "dense relu": (5, model([7], [{"dense": {"units": 9, "activation": "relu"}}, {"dense": {"units": 5, "useBias": False}}])),
    "dense sigmoid": (1, model([7], [{"dense": {"units": 9, "activation": "sigmoid"}}, {"dense": {"units": 5}}])),
    "softmax inside": (4, model([6], [{"dense": {"units": 8, "activation": "softmax"}}, {"dense": {"units": 3}}])),
    "activations": (6, model([6], [{"dense": {"units": 6}}, {"activation": {"function": "sigmoid"}}, {"activation": {"function": "relu"}}, {"dense": {"units": 3}}])),
    "mean squared error": (6, model([4], [{"dense": {"units": 5, "activation": "tanh"}}, {"dense": {"units": 3}}], "meanSquaredError")),
    "reshape and add": (
        3,
        model(
            [4, 4, 3],
            [
                {"name": "stem", **conv(filters=4, kernelSize=3, padding="same", activation="tanh")},
                {"name": "side", "inputs": ["stem"], **conv(filters=4, kernelSize=1)},
                {"name": "sum", "inputs": ["side", "stem"], "add": {}},
                {"reshape": {"targetShape": [2, 8, 4]}},
                conv(filters=2, kernelSize=2),
                *HEAD,
            ],
        ),
    ),
}


def write(name, tensors, metadata):
    arrays = {}
    for key, value in tensors.items():
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        kind = np.int32 if array.dtype.kind == "i" else np.float32
        arrays[key] = np.ascontiguousarray(array.astype(kind))
    texts = {key: json.dumps(value) for key, value in metadata.items()}
    texts["made by"] = f"make_golden.py with PyTorch {torch.__version__}, Keras {keras.__version__}"
    save_file(arrays, FOLDER / name, texts)
    (FOLDER / name).chmod(0o644)
    print(f"{name}: {len(arrays)} tensors, {(FOLDER / name).stat().st_size} bytes")


TOKENS = {"input": {"shape": [7], "vocabulary": 9}, "loss": "softmaxCrossEntropy"}
EMBEDDING = {"embedding": {"inputDim": 11, "outputDim": 6}}


def tokens(*layers):
    return {**TOKENS, "layers": [EMBEDDING, *layers]}


def inside(kind, **options):
    """Two of a kind, so that the gradient by the inner one's input is held too, and scores for each step."""
    return [{kind: {"returnSequences": True, **options}}, {kind: {"returnSequences": True, **options}}, {"dense": {"units": 9}}]


RECURRENT_CASES = {
    "lstm": (5, tokens(*inside("lstm", units=8))),
    "lstm without bias": (3, tokens(*inside("lstm", units=17, useBias=False))),
    "lstm backwards": (2, tokens(*inside("lstm", units=4, goBackwards=True))),
    "lstm last step": (17, tokens({"lstm": {"units": 8}}, {"dense": {"units": 4}})),
    "gru": (5, tokens(*inside("gru", units=8))),
    "gru without bias": (4, tokens(*inside("gru", units=5, useBias=False))),
    "gru last step": (1, tokens({"gru": {"units": 8, "goBackwards": True}}, {"dense": {"units": 4}})),
    "simple rnn": (5, tokens(*inside("simpleRnn", units=8))),
    "simple rnn relu": (3, tokens(*inside("simpleRnn", units=6, activation="relu"))),
    "bidirectional": (5, tokens({"bidirectional": {"layer": {"lstm": {"units": 5, "returnSequences": True}}}}, *inside("gru", units=4))),
    "bidirectional sum": (4, tokens({"bidirectional": {"layer": {"gru": {"units": 5}}, "mergeMode": "sum"}}, {"dense": {"units": 3}})),
    "sequence of numbers": (6, model([5, 3], [{"dense": {"units": 4}}, {"lstm": {"units": 6, "returnSequences": True}}, "flatten", {"dense": {"units": 3}}])),
    "rows of an image": (3, model([6, 5, 1], [BEFORE, {"reshape": {"targetShape": [6, 15]}}, {"simpleRnn": {"units": 4}}, {"dense": {"units": 2}}], "meanSquaredError")),
}


def as_f32(value):
    """Start values and batches are what float32 holds, so that both sides compute from the same numbers."""
    return value.detach().to(torch.float32).to(torch.float64)


def make_layers(file, cases):
    tensors, metadata = {}, {}
    for case, (batch, spec) in cases.items():
        values = {name: as_f32(value).requires_grad_() for name, value in parameters_of(spec).items()}
        x, wanted = batch_for(spec, values, batch)
        x = as_f32(x) if x.is_floating_point() else x
        wanted = as_f32(wanted) if wanted.is_floating_point() else wanted
        loss, output = step(spec, values, x, wanted)
        metadata[f"case {case}"] = spec
        tensors[f"{case}/input"], tensors[f"{case}/wanted"] = x, wanted
        tensors[f"{case}/loss"], tensors[f"{case}/output"] = loss, output
        for name, value in values.items():
            tensors[f"{case}/value/{name}"] = value
            tensors[f"{case}/gradient/{name}"] = value.grad
    write(file, tensors, metadata)


def make_training():
    spec = model(
        [12, 12, 1],
        [
            conv(filters=4, kernelSize=5, activation="tanh"),
            "maxPool2d",
            conv(filters=6, kernelSize=3, activation="tanh"),
            "maxPool2d",
            "flatten",
            {"dense": {"units": 16, "activation": "tanh"}},
            {"dense": {"units": 4}},
        ],
    )
    steps, batch, rate, momentum = 20, 8, 0.1, 0.9
    train("training.safetensors", spec, steps, batch, rate, momentum)


def make_residual():
    torch.manual_seed(2)
    norm = {"batchNormalization": {"momentum": 0.9}}
    relu = {"activation": {"function": "relu"}}
    penalty = {"kernelRegularizer": {"l2": 0.002}}
    spec = model(
        [8, 8, 3],
        [
            {"name": "stem", **conv(filters=6, kernelSize=3, padding="same", **penalty)},
            norm,
            {"name": "active", **relu},
            {"name": "conv1", **conv(filters=4, kernelSize=1, strides=2, padding="same", **penalty)},
            norm,
            relu,
            {"name": "conv2", **conv(filters=4, kernelSize=3, padding="same", useBias=False, kernelRegularizer={"l2": 0.001})},
            norm,
            relu,
            {"name": "conv3", **conv(filters=10, kernelSize=1)},
            {"name": "shortcut", "inputs": ["active"], **conv(filters=10, kernelSize=1, strides=2, padding="same", **penalty)},
            {"name": "sum", "inputs": ["shortcut", "conv3"], "add": {}},
            {"batchNormalization": {}},
            relu,
            "globalAveragePool2d",
            {"dense": {"units": 4}},
        ],
    )
    train("residual.safetensors", spec, steps=20, batch=21, rate=0.05, momentum=0.9)


def train(file, spec, steps, batch, rate, momentum):
    values = {name: as_f32(value).requires_grad_(not is_moving(name)) for name, value in parameters_of(spec).items()}
    tensors = {f"start/{name}": value.clone() for name, value in values.items()}
    centres = torch.randn([4] + spec["input"]["shape"])
    optimizer = torch.optim.SGD([value for value in values.values() if value.requires_grad], lr=rate, momentum=momentum)
    losses = []
    for index in range(steps):
        labels = torch.randint(4, (batch,))
        x = as_f32(centres[labels] + 0.5 * torch.randn([batch] + spec["input"]["shape"]))
        loss, _ = step(spec, values, x, labels)
        optimizer.step()
        tensors[f"input/{index}"], tensors[f"labels/{index}"] = x, labels
        losses.append(loss.item())
    tensors["losses"] = np.array(losses)
    tensors |= {f"end/{name}": value for name, value in values.items()}
    metadata = {"model": spec, "optimizer": {"name": "momentum", "learningRate": rate, "momentum": momentum}}
    write(file, tensors, metadata)


def exponential(rate):
    return {"learningRate": rate, "schedule": {"name": "exponential", "decaySteps": 3, "decayRate": 0.5}}


# Job-file options → the Keras optimizer, and PyTorch's where its formula is the same.
OPTIMIZER_CASES = {
    "sgd": ({"name": "sgd", "learningRate": 0.1}, lambda lr: keras.optimizers.SGD(lr), lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (
        {"name": "momentum", "learningRate": 0.1, "momentum": 0.8},
        lambda lr: keras.optimizers.SGD(lr, momentum=0.8),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8),
    ),
    "nesterov": (
        {"name": "nesterov", "learningRate": 0.1, "momentum": 0.8},
        lambda lr: keras.optimizers.SGD(lr, momentum=0.8, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True),
    ),
    "momentum with a schedule": ({"name": "momentum", "momentum": 0.8, **exponential(0.1)}, lambda lr: keras.optimizers.SGD(lr, momentum=0.8), None),
    "nesterov with a schedule": (
        {"name": "nesterov", "momentum": 0.8, **exponential(0.1)},
        lambda lr: keras.optimizers.SGD(lr, momentum=0.8, nesterov=True),
        None,
    ),
    "adagrad": ({"name": "adagrad", "learningRate": 0.1}, lambda lr: keras.optimizers.Adagrad(lr), None),
    "adadelta": (
        {"name": "adadelta", "learningRate": 1.0},
        lambda lr: keras.optimizers.Adadelta(lr),
        lambda p: torch.optim.Adadelta(p, lr=1.0, rho=0.95, eps=1e-7),
    ),
    "rmsprop": ({"name": "rmsprop", "learningRate": 0.01}, lambda lr: keras.optimizers.RMSprop(lr), None),
    "rmsprop with momentum": (
        {"name": "rmsprop", "learningRate": 0.01, "rho": 0.8, "momentum": 0.5},
        lambda lr: keras.optimizers.RMSprop(lr, rho=0.8, momentum=0.5),
        None,
    ),
    "adam": ({"name": "adam", "learningRate": 0.01}, lambda lr: keras.optimizers.Adam(lr), None),
    "adam with a schedule": ({"name": "adam", "beta1": 0.8, **exponential(0.01)}, lambda lr: keras.optimizers.Adam(lr, beta_1=0.8), None),
    "adamw": (
        {"name": "adamw", "learningRate": 0.01, "weightDecay": 0.05},
        lambda lr: keras.optimizers.AdamW(lr, weight_decay=0.05),
        None,
    ),
    "sgd with weight decay": ({"name": "sgd", "learningRate": 0.1, "weightDecay": 0.05}, lambda lr: keras.optimizers.SGD(lr, weight_decay=0.05), None),
}


def make_optimizers():
    steps, elements = 10, 33
    start = as_f32(torch.randn(elements)).numpy().astype(np.float32)
    gradients = as_f32(torch.randn(steps, elements)).numpy().astype(np.float32)
    tensors, metadata = {"start": start, "gradients": gradients}, {}
    for case, (options, make_keras, make_torch) in OPTIMIZER_CASES.items():
        rate = options["learningRate"]
        if "schedule" in options:
            schedule = options["schedule"]
            rate = keras.optimizers.schedules.ExponentialDecay(rate, schedule["decaySteps"], schedule["decayRate"])
        optimizer = make_keras(rate)
        variable = keras.Variable(start, dtype="float32")
        optimizer.build([variable])
        values = []
        for gradient in gradients:
            optimizer.apply([torch.tensor(gradient)], [variable])
            values.append(keras.ops.convert_to_numpy(variable).copy())
        tensors[f"{case}/values"] = np.stack(values)
        metadata[f"case {case}"] = options
        if make_torch is None:
            continue
        value = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        other = make_torch([value])
        for gradient, expected in zip(gradients, values):
            value.grad = torch.tensor(gradient, dtype=torch.float64)
            other.step()
            np.testing.assert_allclose(value.detach().numpy(), expected, rtol=1e-4, atol=1e-6, err_msg=f"{case}: Keras and PyTorch differ")

    clipped = {}
    for name, norm in (("clipped", 1.0), ("unclipped", 1000.0)):
        tensor = torch.tensor(gradients[0], dtype=torch.float64, requires_grad=True)
        tensor.grad = torch.tensor(gradients[0], dtype=torch.float64)
        total = torch.nn.utils.clip_grad_norm_([tensor], norm)
        clipped[f"clip/{name}"] = tensor.grad
        clipped["clip/norm"] = total
    tensors |= clipped
    write("optimizers.safetensors", tensors, metadata)


if __name__ == "__main__":
    make_layers("layers.safetensors", LAYER_CASES)
    make_training()
    make_optimizers()
    make_residual()
    torch.manual_seed(3)
    make_layers("recurrent.safetensors", RECURRENT_CASES)
