"""Two dense layers on the digits by ParameterServerStrategy: the chief hands out steps, workers compute them, servers hold the weights. TF_CONFIG
says who is who. EPOCHS epochs (8)."""

import os

import tensorflow as tf

import digits
from trainyard_progress import Progress

BATCH = 64
EPOCHS = int(os.environ.get("EPOCHS", 8))


def serve(resolver):
    """Workers and servers answer the chief until the operator stops them."""
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()


def train(resolver):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    (images, labels), (eval_images, eval_labels) = digits.load()
    with strategy.scope():
        weights = [tf.Variable(tf.random.stateless_normal(shape, (1, 2), stddev=(2 / shape[0]) ** 0.5)) for shape in ((784, 128), (128, 10))]

    def batches():
        data = tf.data.Dataset.from_tensor_slices((images, labels))
        return data.shuffle(len(images)).repeat().batch(BATCH)

    @tf.function
    def step_of(iterator):
        def one(pictures, answers):
            with tf.GradientTape() as tape:
                logits = tf.nn.relu(pictures @ weights[0]) @ weights[1]
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(answers, logits))
            for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                weight.assign_sub(0.2 * gradient)
            return loss
        return strategy.run(one, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(lambda _: batches())))
    steps, workers = len(images) // BATCH, len(resolver.cluster_spec().as_dict()["worker"])
    progress = Progress(EPOCHS * steps, BATCH)
    for epoch in range(EPOCHS):
        for step in range(epoch * steps + 1, (epoch + 1) * steps + 1, workers):
            losses = [coordinator.schedule(step_of, args=(iterator,)) for _ in range(workers)]
            coordinator.join()  # raises what a step has failed with; the steps of a lost worker go to another
            progress.tell(min(step + workers - 1, EPOCHS * steps), losses[0].fetch())
        logits = tf.nn.relu(eval_images @ weights[0]) @ weights[1]
        accuracy = (logits.numpy().argmax(1) == eval_labels).mean()
        progress.tell((epoch + 1) * steps, losses[0].fetch(), accuracy=accuracy)


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    serve(resolver) if resolver.task_type in ("worker", "ps") else train(resolver)


if __name__ == "__main__":
    main()
