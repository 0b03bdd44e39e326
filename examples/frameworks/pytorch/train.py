"""A small convolutional network on the digits by DistributedDataParallel over gloo: by plain environment variables, or by torchrun.

EPOCHS epochs (10). SNAPSHOT names a file for the state after each epoch; after a restart all ranks go on from the newest that any of them has.
"""

import os

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import digits
from trainyard_progress import Progress

BATCH = 32  # of each rank
EPOCHS = int(os.environ.get("EPOCHS", 10))
SNAPSHOT = os.environ.get("SNAPSHOT", "")


def network():
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 28, 28)), torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 5, stride=2), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(256, 10))


def newest_state(state):
    """The state of the rank that has come furthest: ranks differ after one was lost, or where each has a disk of its own."""
    if SNAPSHOT and os.path.exists(SNAPSHOT):
        state = torch.load(SNAPSHOT)
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, state)
    return max(states, key=lambda each: each["epoch"])


def save(state):
    if SNAPSHOT:
        torch.save(state, SNAPSHOT + ".new")
        os.replace(SNAPSHOT + ".new", SNAPSHOT)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    (images, labels), (eval_images, eval_labels) = [tuple(map(torch.from_numpy, pair)) for pair in digits.load()]
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    state = newest_state({"epoch": 0, "model": model.state_dict(), "optimizer": optimizer.state_dict()})
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    # torchrun may give rank 0 to any worker; the operator asks worker 0.
    tells = os.environ["TRAINYARD_INDEX"] == "0" and os.environ.get("LOCAL_RANK", "0") == "0"
    steps = len(digits.batches(rank, world, BATCH, 0))
    progress = Progress(EPOCHS * steps, world * BATCH)
    for epoch in range(state["epoch"], EPOCHS):
        for step, batch in enumerate(digits.batches(rank, world, BATCH, epoch), start=epoch * steps + 1):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            if tells:
                progress.tell(step, loss.item())
        with torch.no_grad():
            accuracy = (model.module(eval_images).argmax(1) == eval_labels).float().mean().item()
        if tells:
            progress.tell((epoch + 1) * steps, loss.item(), accuracy=accuracy)
        save({"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
