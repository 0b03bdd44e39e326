"""Two dense layers on the digits by MXNet's dist_async: workers push gradients to servers at their own pace. One script for all roles: MXNet makes a
scheduler or a server of a process whose DMLC_ROLE says so. EPOCHS epochs (8)."""

import os

import mxnet as mx  # a scheduler or a server stays here until the workers have ended
from mxnet import autograd, gluon

import digits
from trainyard_progress import Progress

BATCH = 64
EPOCHS = int(os.environ.get("EPOCHS", 8))


def main():
    store = mx.kv.create("dist_async")
    rank, world = store.rank, store.num_workers
    tells = os.environ["TRAINYARD_INDEX"] == "0"  # the operator asks worker 0, which may have any rank
    (images, labels), (eval_images, eval_labels) = digits.load()
    model = gluon.nn.Sequential()
    model.add(gluon.nn.Dense(128, activation="relu", in_units=784), gluon.nn.Dense(10, in_units=128))
    mx.random.seed(1)
    model.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=store, update_on_kvstore=True)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    steps = len(digits.batches(rank, world, BATCH, 0))
    progress = Progress(EPOCHS * steps, world * BATCH)
    for epoch in range(EPOCHS):
        for step, batch in enumerate(digits.batches(rank, world, BATCH, epoch), start=epoch * steps + 1):
            with autograd.record():
                loss = loss_of(model(mx.nd.array(images[batch])), mx.nd.array(labels[batch]))
            loss.backward()
            trainer.step(BATCH)
            if tells:
                progress.tell(step, loss.mean().asscalar())
        if tells:
            accuracy = (model(mx.nd.array(eval_images)).asnumpy().argmax(1) == eval_labels).mean()
            progress.tell((epoch + 1) * steps, loss.mean().asscalar(), accuracy=accuracy)


if __name__ == "__main__":
    main()
