"""The weights: the training loop, evaluation, distillation, checkpoints and devices."""
