"""LeNet-5 (the scaling study's variant): whole training steps by PyTorch on one core in both memory formats, as JSON."""
import argparse
import json

import torch
from step_rate import images_per_second


def build(batch, memory_format):
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 20, 5), torch.nn.Tanh(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(20, 50, 5), torch.nn.Tanh(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(800, 500), torch.nn.Tanh(), torch.nn.Linear(500, 10)).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.025)
    images = torch.rand(batch, 1, 28, 28).to(memory_format=memory_format)
    labels = torch.randint(0, 10, (batch,))
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    result = {"pytorch": {}, "pytorch channels_last": {}}
    for batch in map(int, args.batches.split(",")):
        result["pytorch"][batch] = images_per_second(build(batch, torch.contiguous_format), batch, args.seconds)
        result["pytorch channels_last"][batch] = images_per_second(build(batch, torch.channels_last), batch, args.seconds)
    print(json.dumps({"version": torch.__version__, "rates": result}))


if __name__ == "__main__":
    main()
