"""Training of one model by several processes, which torchrun starts."""
