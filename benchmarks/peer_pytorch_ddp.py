"""One replica of a network trained by PyTorch's DistributedDataParallel over gloo, images in channels_last (step_rate.py says what is printed)."""
import functools
import json
import os

import pytorch_networks
import step_rate
import torch

args = step_rate.replica_arguments()
torch.set_num_threads(1)
if len(args.hosts) > 1:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{args.hosts[0]}", rank=args.rank, world_size=len(args.hosts))
wrap = pytorch_networks.alone if len(args.hosts) == 1 else functools.partial(
    torch.nn.parallel.DistributedDataParallel, gradient_as_bucket_view=True)
step = pytorch_networks.NETWORKS[args.model](args.batch, "channels_last", wrap)
print(json.dumps({"version": torch.__version__, **step_rate.measure_replica(step, args.steps)}), flush=True)
if len(args.hosts) > 1:
    torch.distributed.barrier()
    os._exit(0)  # PyTorch 2.15 ends one replica in ten or twenty with "terminate called" while it takes gloo's threads down
