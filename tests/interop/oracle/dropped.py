"""Which elements a dropout of the engine drops: trainer/ops/philox.h in NumPy."""
import math

import numpy
import torch

LOW, HALF = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)


def philox(counter, key):
    counter = [numpy.asarray(word, numpy.uint64) for word in counter]
    for _ in range(10):
        a, b = numpy.uint64(0xD2511F53) * counter[0], numpy.uint64(0xCD9E8D57) * counter[2]
        counter = [(b >> HALF) ^ counter[1] ^ numpy.uint64(key[0]), b & LOW, (a >> HALF) ^ counter[3] ^ numpy.uint64(key[1]), a & LOW]
        key = (key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF
    return counter


def mask(shape, rate, seed, step, rank, dropout):
    """1 for each element of [samples, …] that stays."""
    *key, salt0, salt1 = (int(word) for word in philox((step, 0, rank, dropout), (seed, 0)))
    samples, elements = shape[0], math.prod(shape[1:])
    quads, sample = numpy.meshgrid(numpy.arange(-(-elements // 4)), numpy.arange(samples))
    words = numpy.stack(philox((quads, sample, numpy.full_like(quads, salt0), numpy.full_like(quads, salt1)), key), -1)
    threshold = numpy.uint64(int(numpy.float64(numpy.float32(rate)) * 2**32))
    return torch.from_numpy((words.reshape(samples, -1)[:, :elements] >= threshold).reshape(shape).astype(numpy.float64))
