"""One replica of a network trained by TensorFlow's MultiWorkerMirroredStrategy (step_rate.py says what is printed)."""
import json
import os

import step_rate

args = step_rate.replica_arguments()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if len(args.hosts) > 1:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": args.hosts}, "task": {"type": "worker", "index": args.rank}})
import tensorflow as tf  # noqa: E402
import tensorflow_networks  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


class Mirrored:
    def __init__(self):
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        self.scope, self.run = self.strategy.scope, self.strategy.run

    def mean(self, gradients):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)


replicas = Mirrored() if len(args.hosts) > 1 else tensorflow_networks.OneReplica()
step = tensorflow_networks.NETWORKS[args.model](args.batch, "graph", replicas)
print(json.dumps({"version": tf.__version__, **step_rate.measure_replica(step, args.steps)}), flush=True)
