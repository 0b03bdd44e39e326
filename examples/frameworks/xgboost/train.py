"""Trees on the digits by XGBoost: each worker has a part of the rows, and the histograms are added over the tracker's ring. EPOCHS rounds (20)."""

import os

import xgboost
from xgboost.collective import CommunicatorContext
from xgboost.tracker import RabitTracker

import digits
from trainyard_progress import Progress

ROUNDS = int(os.environ.get("EPOCHS", 20))


class Tell(xgboost.callback.TrainingCallback):
    def __init__(self, progress):
        super().__init__()
        self.progress = progress

    def after_iteration(self, model, epoch, evals_log):
        losses = {name: values["mlogloss"][-1] for name, values in evals_log.items()}
        self.progress.tell(epoch + 1, losses["train"], accuracy=1 - evals_log["eval"]["merror"][-1])


def main():
    rank, world = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
    address = {"dmlc_tracker_uri": os.environ["DMLC_TRACKER_URI"], "dmlc_tracker_port": int(os.environ["DMLC_TRACKER_PORT"])}
    if rank == 0:
        tracker = RabitTracker(n_workers=world, host_ip="0.0.0.0", port=address["dmlc_tracker_port"], sortby="task")
        tracker.start()
    (images, labels), evaluation = digits.load()
    with CommunicatorContext(dmlc_communicator="rabit", dmlc_task_id=str(rank), dmlc_retry=30, **address):
        train = xgboost.QuantileDMatrix(images[rank::world], labels[rank::world])
        held_out = xgboost.QuantileDMatrix(*evaluation, ref=train)
        xgboost.train({"objective": "multi:softprob", "num_class": 10, "max_depth": 4, "nthread": 1, "eval_metric": ["mlogloss", "merror"], "eta": 0.5},
                      train, ROUNDS, evals=[(train, "train"), (held_out, "eval")], verbose_eval=False,
                      callbacks=[Tell(Progress(ROUNDS, len(images)))] if rank == 0 else [])
    if rank == 0:
        tracker.wait_for()


if __name__ == "__main__":
    main()
