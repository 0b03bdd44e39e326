"""The networks of the comparison in PyTorch's own modules: NETWORKS[name](batch, variant, wrap, precision) is a training step.

`wrap(module)` is the module that the step runs: data_parallel.py's peer has DistributedDataParallel there. With precision "bfloat16" the
forward pass and the loss run under autocast.
"""
import torch
from torch import nn


def alone(module):
    return module


def autocast(precision):
    """On the default device."""
    return torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


def classifier(network, image_shape, optimizer, l2=0.0):
    """`network()` is a module that gives the scores of 10 classes."""

    def build(batch, variant, wrap=alone, precision="float32"):
        torch.manual_seed(1)
        memory_format = torch.channels_last if variant == "channels_last" else torch.contiguous_format
        model = wrap(network().to(memory_format=memory_format))
        updates = optimizer(model.parameters())
        kernels = [module.weight for module in model.modules() if isinstance(module, nn.Conv2d)]
        images = torch.rand(batch, *image_shape).to(memory_format=memory_format)
        labels = torch.randint(0, 10, (batch,))
        loss_of = nn.CrossEntropyLoss()

        def step():
            updates.zero_grad(set_to_none=True)
            with autocast(precision):
                loss = loss_of(model(images), labels)
            if l2:
                loss = loss + l2 * sum(kernel.square().sum() for kernel in kernels)
            loss.backward()
            updates.step()
            return loss.item()

        return step

    return build


def lenet5():
    """The scaling study's variant."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10))


def mnist_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))


def norm_relu(channels):
    return nn.Sequential(nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01), nn.ReLU(inplace=True))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, outputs, stride, activate, project):
        super().__init__()
        self.before = norm_relu(inputs) if activate else nn.Identity()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride), norm_relu(width), nn.Conv2d(width, width, 3, padding=1), norm_relu(width),
            nn.Conv2d(width, outputs, 1))
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if project else nn.Identity()

    def forward(self, x):
        return self.shortcut(x) + self.layers(self.before(x))


def resnet56v2():
    layers = [nn.Conv2d(3, 16, 3, padding=1), norm_relu(16)]
    inputs, width = 16, 16
    for stage in range(3):
        outputs = width * 4 if stage == 0 else width * 2
        for block in range(6):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(inputs, width, outputs, stride, activate=stage > 0 or block > 0, project=block == 0))
            inputs = outputs
        width = outputs
    return nn.Sequential(*layers, norm_relu(inputs), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.025)


def adadelta(parameters):
    return torch.optim.Adadelta(parameters, lr=1.0, rho=0.95, eps=1e-7)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.001, eps=1e-7, fused=True)


class WordScores(nn.Module):
    """Embedding, two LSTM layers of 200 and scores of 10,000 words."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10000, 200, sparse=True)
        self.lstm = nn.LSTM(200, 200, num_layers=2)
        self.head = nn.Linear(200, 10000)

    def forward(self, words, state):
        y, after = self.lstm(self.embedding(words), state)
        return self.head(y), after


def ptb_lstm(batch, variant, wrap=alone, precision="float32"):
    """Over 30 steps; the state goes from step to step."""
    torch.manual_seed(1)
    words = torch.randint(0, 10000, (31, batch))
    model = wrap(WordScores())
    updates = torch.optim.SGD(model.parameters(), lr=0.025)
    loss_of = nn.CrossEntropyLoss()
    state = [torch.zeros(2, batch, 200)] * 2

    def step():
        updates.zero_grad(set_to_none=True)
        with autocast(precision):
            scores, after = model(words[:30], tuple(state))
            loss = loss_of(scores.reshape(-1, 10000), words[1:].reshape(-1))
        state[:] = [part.detach() for part in after]
        loss.backward()
        updates.step()
        return loss.item()

    return step


NETWORKS = {
    "lenet5": classifier(lenet5, (1, 28, 28), sgd),
    "mnistCnn": classifier(mnist_cnn, (1, 28, 28), adadelta),
    "resnet56v2": classifier(resnet56v2, (3, 32, 32), adam, l2=1e-4),
    "ptbLstm": ptb_lstm,
}
