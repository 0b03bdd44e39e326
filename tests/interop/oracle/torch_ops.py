"""What PyTorch says: one method for each op of a graph, in float32 or with products of operands rounded to bfloat16."""
import math

import torch
import torch.nn.functional as F

FUNCTIONS = {"identity": lambda x: x, "tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}


class RoundedOperand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(ctx, dy):
        return dy


class RoundedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy.bfloat16().float()


def padded(x, size, strides, padding, value=0.0):
    """[N, H, W, C] as [N, C, H, W]; "same" as in TensorFlow: of the padding, the half rounded down comes before."""
    x = x.permute(0, 3, 1, 2)
    if padding == "valid":
        return x
    around = []
    for axis in (1, 0):  # F.pad begins with the last axis
        extent = x.shape[2 + axis]
        total = max((-(-extent // strides[axis]) - 1) * strides[axis] + size[axis] - extent, 0)
        around += [total // 2, total - total // 2]
    return F.pad(x, around, value=value)


class Ops:
    """One method for each op of the graphs: from a node and its inputs to its outputs, by PyTorch."""

    def __init__(self, bfloat16, training, mask):
        self.bfloat16, self.training, self.mask = bfloat16, training, mask

    def product(self, multiply, x, w):
        return RoundedGradient.apply(multiply(RoundedOperand.apply(x), RoundedOperand.apply(w))) if self.bfloat16 else multiply(x, w)

    def dense(self, node, x, w):
        return self.product(lambda x, w: F.linear(x, w.T), x, w)

    def conv2d(self, node, x, w):
        x = padded(x, w.shape[:2], node["strides"], node["padding"])
        return self.product(lambda x, w: F.conv2d(x, w.permute(3, 2, 0, 1).contiguous(), stride=node["strides"]), x, w).permute(0, 2, 3, 1)

    def bias(self, node, x, b):
        return x + b

    def activate(self, node, x):
        return FUNCTIONS[node["function"]](x)

    def add(self, node, *terms):
        return torch.stack(terms).sum(0)

    def dropout(self, node, x):
        return x * self.mask / (1 - node["rate"]) if self.training else x

    def reshape(self, node, x):
        return x.reshape(node["shape"])

    def flatten(self, node, x):
        return x.flatten(1)

    def concat(self, node, *parts):
        return torch.cat(parts, -1)

    def embedding(self, node, ids, table):
        return F.embedding(ids.long(), table)

    def max_pool(self, node, x):
        return F.max_pool2d(padded(x, node["size"], node["strides"], node["padding"], -math.inf), node["size"], node["strides"]).permute(0, 2, 3, 1)

    def avg_pool(self, node, x):
        sums, inside = (F.avg_pool2d(padded(y, node["size"], node["strides"], node["padding"]), node["size"], node["strides"]) for y in (x, torch.ones_like(x)))
        return (sums / inside).permute(0, 2, 3, 1)

    def batch_norm(self, node, x, gamma, beta, mean, variance):
        rows = x.reshape(-1, x.shape[-1])
        y = F.batch_norm(rows, mean.clone(), variance.clone(), gamma, beta, self.training, 0.0, node["epsilon"]).reshape(x.shape)
        keep = node["momentum"]
        return y, keep * mean + (1 - keep) * rows.mean(0), keep * variance + (1 - keep) * rows.var(0, unbiased=False)

    def recurrent(self, node, z, kernel, *others):
        others = list(others)
        bias = others.pop(0) if node["bias"] else torch.zeros(2, z.shape[2])
        state = [other.detach() for other in others] or [torch.zeros(len(z), len(kernel))] * 2
        steps = range(z.shape[1])
        ys = {}
        for t in reversed(steps) if node["reverse"] else steps:
            state = getattr(self, node["cell"])(node, z[:, t], kernel, bias, state)
            ys[t] = state[0]
        return torch.stack([ys[t] for t in steps], 1), state[0], None, state[-1]

    # z is the product of a layer's input, so PyTorch's cells get the unit matrix for input weights.
    def rnn(self, node, z, kernel, bias, state):
        if not self.bfloat16 and node["function"] in ("tanh", "relu"):
            return [getattr(torch, f"rnn_{node['function']}_cell")(z, state[0], torch.eye(z.shape[1]), kernel.T)]
        return [FUNCTIONS[node["function"]](z + self.dense(node, state[0], kernel))]

    def lstm(self, node, z, kernel, bias, state):
        if not self.bfloat16:
            return torch.lstm_cell(z, state, torch.eye(z.shape[1]), kernel.T)
        i, f, g, o = (z + self.dense(node, state[0], kernel)).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def gru(self, node, z, kernel, bias, state):
        h = state[0]
        if not self.bfloat16:
            units = len(kernel)
            order = torch.cat([torch.arange(units, 2 * units), torch.arange(units), torch.arange(2 * units, 3 * units)])  # PyTorch's r, z, n
            return [torch.gru_cell(z[:, order], h, torch.eye(3 * units), kernel.T[order], bias[0, order], bias[1, order])]
        (z_x, r_x, n_x), (z_h, r_h, n_h) = ((part + b).chunk(3, 1) for part, b in zip((z, self.dense(node, h, kernel)), bias))
        update = (z_x + z_h).sigmoid()
        return [update * h + (1 - update) * (n_x + (r_x + r_h).sigmoid() * n_h).tanh()]

    def softmax(self, node, x):
        return x.softmax(-1)

    def softmax_cross_entropy(self, node, logits, labels):
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()), logits.softmax(-1)

    def correct_count(self, node, scores, labels):
        return (scores.argmax(-1) == labels).sum().to(scores.dtype)

    def mean_squared_error(self, node, prediction, target):
        return F.mse_loss(prediction, target)

    def l2_penalty(self, node, loss, *weights):
        return loss + node["l2"] * sum(w.square().sum() for w in weights)
