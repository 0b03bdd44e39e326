"""The updates of parameters by the formulas of docs/models.md, in float64."""
import math

import numpy

FAST = ("sgd", "momentum", "nesterov")


def learning_rate(options, step):
    rate = options.get("learningRate", 0.01 if options["name"] in FAST else 0.001)
    schedule = options.get("schedule", {"name": "constant"})
    warmup = schedule.get("warmupSteps", 0)
    if step < warmup:
        return rate * (step + 1) / warmup
    step -= warmup + schedule.get("holdSteps", 0)
    if schedule["name"] == "constant" or step < 0:
        return rate
    if schedule["name"] == "cosine":
        least = schedule.get("minimum", 0)
        return least + (rate - least) * (1 + math.cos(math.pi * min(1, step / schedule["decaySteps"]))) / 2
    periods = step / schedule["decaySteps"]
    return rate * schedule["decayRate"] ** (math.floor(periods) if schedule["name"] == "step" else periods)


def clipped(gradients, most):
    norm = math.sqrt(sum(float(numpy.square(gradient).sum()) for gradient in gradients.values()))
    return {name: gradient * (most / norm) for name, gradient in gradients.items()} if most and norm > most else gradients


class Optimizer:
    def __init__(self, options):
        self.options, self.step, self.slots = options, 0, {}

    def update(self, values, gradients):
        """The values after a step, and no change of `values`."""
        rate = learning_rate(self.options, self.step)
        self.step += 1
        decay = self.options.get("weightDecay", 0.004 if self.options["name"] == "adamw" else 0)
        rule = getattr(self, {"nesterov": "momentum", "sgd": "momentum", "adamw": "adam"}.get(self.options["name"], self.options["name"]))
        return {name: values[name] * (1 - rate * decay) + rule(gradients[name], self.slots.setdefault(name, {}), rate) for name in gradients}

    def of(self, name, default):
        return self.options.get(name, default)

    def momentum(self, g, slots, rate):
        keep = self.of("momentum", 0 if self.options["name"] == "sgd" else 0.9)
        slots["v"] = keep * slots.get("v", 0) - rate * g
        ahead = self.options["name"] == "nesterov" or self.of("nesterov", False)
        return keep * slots["v"] - rate * g if ahead else slots["v"]

    def adagrad(self, g, slots, rate):
        slots["s"] = slots.get("s", self.of("initialAccumulator", 0.1)) + g * g
        return -rate * g / numpy.sqrt(slots["s"] + self.of("epsilon", 1e-7))

    def adadelta(self, g, slots, rate):
        keep, epsilon = self.of("rho", 0.95), self.of("epsilon", 1e-7)
        slots["s"] = keep * slots.get("s", 0) + (1 - keep) * g * g
        change = g * numpy.sqrt(slots.get("u", 0) + epsilon) / numpy.sqrt(slots["s"] + epsilon)
        slots["u"] = keep * slots.get("u", 0) + (1 - keep) * change * change
        return -rate * change

    def rmsprop(self, g, slots, rate):
        keep = self.of("rho", 0.9)
        slots["s"] = keep * slots.get("s", 0) + (1 - keep) * g * g
        slots["m"] = self.of("momentum", 0) * slots.get("m", 0) + rate * g / numpy.sqrt(slots["s"] + self.of("epsilon", 1e-7))
        return -slots["m"]

    def adam(self, g, slots, rate):
        beta1, beta2 = self.of("beta1", 0.9), self.of("beta2", 0.999)
        slots["m"] = beta1 * slots.get("m", 0) + (1 - beta1) * g
        slots["s"] = beta2 * slots.get("s", 0) + (1 - beta2) * g * g
        corrected = rate * math.sqrt(1 - beta2**self.step) / (1 - beta1**self.step)
        return -corrected * slots["m"] / (numpy.sqrt(slots["s"]) + self.of("epsilon", 1e-7))
