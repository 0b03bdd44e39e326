"""Two dense layers on the digits by MultiWorkerMirroredStrategy, which reads TF_CONFIG. EPOCHS epochs (8)."""

import os

import tensorflow as tf

import digits
from trainyard_progress import Progress

BATCH = 64  # of each worker
EPOCHS = int(os.environ.get("EPOCHS", 8))


class Tell(tf.keras.callbacks.Callback):
    def __init__(self, progress, steps, evaluation):
        super().__init__()
        self.progress, self.steps, self.evaluation, self.step = progress, steps, evaluation, 0

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.progress.tell(self.step, logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        self.progress.tell(self.step, logs["loss"], accuracy=logs["val_accuracy"])


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank, world = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
    (images, labels), evaluation = digits.load()
    steps = len(images) // (world * BATCH)
    own = tf.data.Dataset.from_tensor_slices((images[rank::world], labels[rank::world])).shuffle(len(images), seed=1).batch(BATCH, drop_remainder=True).repeat()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    held_out = tf.data.Dataset.from_tensor_slices(evaluation).batch(1000).with_options(options)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((784,)), tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(10)])
        model.compile(tf.keras.optimizers.SGD(0.2), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
    tell = [Tell(Progress(EPOCHS * steps, world * BATCH), steps, evaluation)] if rank == 0 else []
    model.fit(own.with_options(options), epochs=EPOCHS, steps_per_epoch=steps, validation_data=held_out, callbacks=tell, verbose=0)


if __name__ == "__main__":
    main()
