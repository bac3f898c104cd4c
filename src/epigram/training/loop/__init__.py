"""The training loop: the Trainer, and a callback for each thing that is done beside the steps."""
