"""Jobs of gang: Native under the scheduler of Kubernetes itself, whose gang scheduling is behind a feature gate."""

import unittest

from harness.control_plane import Options
from queue_cases import NODES, QueueCase, WholeJobs

GATES = "GenericWorkload=true,GangScheduling=true"


class NativeGangTest(WholeJobs, QueueCase):
    options = Options(scheduler=True, feature_gates=GATES, runtime_config="scheduling.k8s.io/v1alpha2=true", **NODES)

    def mark(self, maker):
        return maker.policy(scheduling={"gang": "Native"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
