"""One network's whole training steps by TensorFlow on one core (step_rate.py says what is printed). Variants: graph, xla."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import step_rate  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_networks  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
step_rate.main(tensorflow_networks.NETWORKS, tf.__version__, ["graph", "xla"])
