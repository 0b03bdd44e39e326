"""torchvision's folder of pictures through a DataLoader with one worker: prints pictures a second. A peer of jpeg.py.

    peer_torchvision.py FOLDER SIDE BATCH SECONDS
"""
import sys
import time

import torch
import torchvision

folder, side, batch, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
torch.set_num_threads(1)
steps = [torchvision.transforms.Resize(side), torchvision.transforms.CenterCrop(side), torchvision.transforms.ToTensor()]
pictures = torchvision.datasets.ImageFolder(folder, torchvision.transforms.Compose(steps))
loader = torch.utils.data.DataLoader(pictures, batch_size=batch, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True)
for _ in loader:  # the worker starts, the files come into memory
    pass
count, start = 0, time.perf_counter()
while (took := time.perf_counter() - start) < seconds:
    count += sum(len(labels) for _, labels in loader)
print(count / took)
