"""The small jobs that chaos disturbs: what each trains, with how many replicas, and how. Short, but long enough to be hit."""
import dataclasses
import json

LENET = {
    "model": {"preset": "lenet5"},
    "data": {"format": "idx", "dir": "examples/data/mnist",
             "train": {"images": "t10k-images-idx3-ubyte.gz", "labels": "t10k-labels-idx1-ubyte.gz", "range": [0, 2048]},
             "eval": {"images": "t10k-images-idx3-ubyte.gz", "labels": "t10k-labels-idx1-ubyte.gz", "range": [9000, 9200]}},
    "batchSize": 32,
}
NORMALIZED = {**LENET, "model": {"input": {"shape": [28, 28, 1]}, "loss": "softmaxCrossEntropy", "layers": [
    {"conv2d": {"filters": 4, "kernelSize": 5, "strides": 2}}, "batchNormalization", {"activation": {"function": "relu"}}, "flatten", {"dense": {"units": 10}}]}}
# Stateful: what the layer carries from batch to batch must survive, too.
TEXT = {
    "model": {"input": {"shape": [10], "vocabulary": 65}, "loss": "softmaxCrossEntropy", "layers": [
        {"embedding": {"outputDim": 8}}, {"lstm": {"units": 16, "returnSequences": True, "stateful": True}}, {"dense": {"units": 65}}]},
    "data": {"format": "text", "dir": "examples/data/tinyshakespeare", "tokens": "characters", "train": {"files": ["input.txt"]}},
    "batchSize": 4,
}


@dataclasses.dataclass(frozen=True)
class Shape:
    mode: str  # "sync", "async", "allReduce" or "local"
    ps: int
    workers: int
    steps: int
    save_every: int
    train: dict = dataclasses.field(default_factory=lambda: LENET)
    chief: int = 0
    evaluator: int = 0
    strategy: dict = dataclasses.field(default_factory=dict)  # more of it
    network: bool = False  # over gRPC, so that cut networks hit streams with tensors; else the replicas choose shared memory

    def job(self, name):
        """The TrainingJob."""
        strategy = {"parameterServer": {"mode": self.mode, **self.strategy}} if self.ps else {self.mode: self.strategy}
        return {
            "apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {
                "framework": "Trainyard",
                **{role: {"replicas": number} for role, number in self.roles().items()},
                "runPolicy": {"backoffLimit": 1000},
                "training": {**self.train, "steps": self.steps, "optimizer": {"name": "momentum", "learningRate": 0.02, "momentum": 0.9},
                             "strategy": strategy, "seed": 7, "checkpoint": {"everySteps": self.save_every, "keep": 3}, "timeouts": {"silence": 3},
                             "resources": {"threads": 1, "sharedMemory": not self.network}},
            }}

    def roles(self):
        """role → replicas, of the roles that the job has."""
        numbers = {"ps": self.ps, "chief": self.chief, "worker": self.workers, "evaluator": self.evaluator}
        return {role: number for role, number in numbers.items() if number > 0}

    def text(self):
        """The job file: YAML is a superset of JSON."""
        return json.dumps(self.job("chaos"), indent=1)


# Two devices in each worker: theirs are the sums, and the state that layers carry.
DEVICES = {**TEXT, "devices": 2, "batchSize": 2}

SHAPES = {
    "sync-1x2": Shape("sync", 1, 2, 500, 60),
    "async-2x3": Shape("async", 2, 3, 500, 60),
    "sync-2x3": Shape("sync", 2, 3, 400, 45, network=True),
    "local": Shape("local", 0, 1, 500, 60),
    "sync-chief-evaluator": Shape("sync", 2, 1, 400, 50, chief=1, evaluator=1),
    "async-1x2": Shape("async", 1, 2, 600, 0, network=True),
    "sync-no-checkpoints": Shape("sync", 2, 2, 300, 0, network=True),
    "sync-text": Shape("sync", 2, 2, 5000, 600, TEXT, network=True),
    "sync-normalized": Shape("sync", 1, 2, 2500, 300, NORMALIZED),
    "all-reduce-2": Shape("allReduce", 0, 2, 500, 60),
    "all-reduce-4": Shape("allReduce", 0, 4, 300, 45, network=True),
    "sync-devices": Shape("sync", 1, 2, 20000, 2000, DEVICES),
    "all-reduce-devices": Shape("allReduce", 0, 2, 20000, 2000, DEVICES),
    "all-reduce-halving": Shape("allReduce", 0, 3, 400, 60, strategy={"algorithm": "halvingDoubling"}),
    "all-reduce-hierarchical": Shape("allReduce", 0, 4, 300, 45, strategy={"algorithm": "hierarchical"}),
    "all-reduce-sharded": Shape("allReduce", 0, 3, 400, 60, strategy={"shardOptimizer": True}),
    "all-reduce-direct": Shape("allReduce", 0, 3, 400, 60, strategy={"algorithm": "direct"}, network=True),
}

# Each strategy, by the shapes that have it in turn: what --kills counts.
STRATEGIES = {
    "sync": ("sync-1x2", "sync-2x3", "sync-text"),
    "async": ("async-2x3", "async-1x2"),
    "all-reduce, direct": ("all-reduce-direct",),
    "all-reduce, halvingDoubling": ("all-reduce-halving",),
    "all-reduce, hierarchical": ("all-reduce-hierarchical",),
    "all-reduce, auto": ("all-reduce-2", "all-reduce-4"),
    "all-reduce, sharded optimizer": ("all-reduce-sharded",),
    "two devices": ("sync-devices", "all-reduce-devices"),
}
