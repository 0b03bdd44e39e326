"""A real Kubernetes on one bare machine: control plane, one node, images, and the client that the tests talk to it with."""
