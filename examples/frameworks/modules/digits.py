"""The handwritten digits of examples/data/mnist, for the training scripts of the frameworks."""

import gzip
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "data/mnist"
TRAINED_ON = 9000  # of 10,000; the rest is for evaluation


def _read(name, header):
    with gzip.open(FOLDER / name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def load():
    """(images, labels) to train on and (images, labels) to evaluate with: float32 [n, 784] from 0 to 1, int64 [n]."""
    images = _read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float32) / 255
    labels = _read("t10k-labels-idx1-ubyte.gz", 8).astype(np.int64)
    return (images[:TRAINED_ON], labels[:TRAINED_ON]), (images[TRAINED_ON:], labels[TRAINED_ON:])


def batches(rank, world, batch_size, epoch):
    """Indexes of this rank's batches in an epoch. All ranks draw the same order and have the same number of full batches."""
    order = np.random.default_rng(epoch).permutation(TRAINED_ON)[rank::world]
    whole = TRAINED_ON // world // batch_size
    return order[: whole * batch_size].reshape(whole, batch_size)
