"""One network's whole training steps by PyTorch on one core (step_rate.py says what is printed). Variants: the memory format of images."""
import pytorch_networks
import step_rate
import torch

torch.set_num_threads(1)
step_rate.main(pytorch_networks.NETWORKS, torch.__version__, ["contiguous", "channels_last"])
