"""Two dense layers on the digits by NumPy, gradients added by MPI's Allreduce. EPOCHS epochs (10)."""

import os

import numpy as np
from mpi4py import MPI

import digits
from trainyard_progress import Progress

BATCH = 64  # of each rank
RATE = 0.2
EPOCHS = int(os.environ.get("EPOCHS", 10))


def forward(weights, images):
    hidden = np.maximum(images @ weights[0], 0)
    logits = hidden @ weights[1]
    exponents = np.exp(logits - logits.max(1, keepdims=True))
    return hidden, exponents / exponents.sum(1, keepdims=True)


def gradients(weights, images, labels):
    """The loss and the gradients of both matrices, means over the batch."""
    hidden, probabilities = forward(weights, images)
    rows = np.arange(len(labels))
    loss = -np.log(probabilities[rows, labels] + 1e-9).mean()
    error = probabilities
    error[rows, labels] -= 1
    error /= len(labels)
    return loss, [images.T @ ((error @ weights[1].T) * (hidden > 0)), hidden.T @ error]


def main():
    group = MPI.COMM_WORLD
    rank, world = group.Get_rank(), group.Get_size()
    (images, labels), (eval_images, eval_labels) = digits.load()
    random = np.random.default_rng(1)
    weights = [(random.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32) for shape in ((784, 128), (128, 10))]
    steps = len(digits.batches(rank, world, BATCH, 0))
    progress = Progress(EPOCHS * steps, world * BATCH)
    for epoch in range(EPOCHS):
        for step, batch in enumerate(digits.batches(rank, world, BATCH, epoch), start=epoch * steps + 1):
            loss, own = gradients(weights, images[batch], labels[batch])
            for weight, gradient in zip(weights, own):
                total = np.empty_like(gradient)
                group.Allreduce(gradient, total)
                weight -= RATE / world * total
            if rank == 0:
                progress.tell(step, loss)
        if rank == 0:
            accuracy = (forward(weights, eval_images)[1].argmax(1) == eval_labels).mean()
            progress.tell((epoch + 1) * steps, loss, accuracy=accuracy)


if __name__ == "__main__":
    main()
