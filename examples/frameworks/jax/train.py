"""Two dense layers on the digits by JAX: each process holds a part of each batch, and XLA adds the gradients over gloo. EPOCHS epochs (20)."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import digits
from trainyard_progress import Progress

BATCH = 64  # of each process
RATE = 0.2
EPOCHS = int(os.environ.get("EPOCHS", 20))


def logits(weights, images):
    return jax.nn.relu(images @ weights[0]) @ weights[1]


def loss_of(weights, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(weights, images)), labels[:, None], 1).mean()


@jax.jit
def step_of(weights, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    return [weight - RATE * gradient for weight, gradient in zip(weights, gradients)], loss


def main():
    jax.config.update("jax_enable_preemption_service", False)  # SIGTERM ends the process, as there is nothing to save
    # The address of the coordinator is read from JAX_COORDINATOR_ADDRESS.
    jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"]))
    rank, world = jax.process_index(), jax.process_count()
    (images, labels), (eval_images, eval_labels) = digits.load()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split, same = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    random = np.random.default_rng(1)
    own = [(random.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32) for shape in ((784, 128), (128, 10))]
    weights = [jax.make_array_from_process_local_data(same, each) for each in own]
    steps = len(digits.batches(rank, world, BATCH, 0))
    progress = Progress(EPOCHS * steps, world * BATCH)
    for epoch in range(EPOCHS):
        for step, batch in enumerate(digits.batches(rank, world, BATCH, epoch), start=epoch * steps + 1):
            weights, loss = step_of(weights, *[jax.make_array_from_process_local_data(split, each[batch]) for each in (images, labels)])
            loss = float(loss)
            if rank == 0:
                progress.tell(step, loss)
        if rank == 0:
            accuracy = (np.asarray(logits([each.addressable_data(0) for each in weights], eval_images)).argmax(1) == eval_labels).mean()
            progress.tell((epoch + 1) * steps, loss, accuracy=accuracy)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
