"""Two dense layers on the digits by MultiWorkerMirroredStrategy, which reads TF_CONFIG. EPOCHS epochs (8).

The loop is written out: Keras 3 has no fit() for several workers.
"""

import os

import tensorflow as tf

import digits
from trainyard_progress import Progress

BATCH = 64  # of each worker
EPOCHS = int(os.environ.get("EPOCHS", 8))


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank, world = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
    (images, labels), (eval_images, eval_labels) = digits.load()
    with strategy.scope():
        weights = [tf.Variable(tf.random.stateless_normal(shape, (1, 2), stddev=(2 / shape[0]) ** 0.5)) for shape in ((784, 128), (128, 10))]

    @tf.function
    def step_of(pictures, answers):
        def one(pictures, answers):
            with tf.GradientTape() as tape:
                logits = tf.nn.relu(pictures @ weights[0]) @ weights[1]
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(answers, logits))
            gradients = tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, weights))
            for weight, gradient in zip(weights, gradients):
                weight.assign_sub(0.2 * gradient)
            return loss
        return strategy.run(one, args=(pictures, answers))

    steps = len(digits.batches(rank, world, BATCH, 0))
    progress = Progress(EPOCHS * steps, world * BATCH)
    for epoch in range(EPOCHS):
        for step, batch in enumerate(digits.batches(rank, world, BATCH, epoch), start=epoch * steps + 1):
            loss = step_of(tf.constant(images[batch]), tf.constant(labels[batch]))
            if rank == 0:
                progress.tell(step, loss)
        if rank == 0:
            first, second = [weight.numpy() for weight in weights]
            answers = ((eval_images @ first).clip(0) @ second).argmax(1)
            progress.tell((epoch + 1) * steps, loss, accuracy=(answers == eval_labels).mean())


if __name__ == "__main__":
    main()
