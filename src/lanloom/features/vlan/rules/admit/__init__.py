"""What the webhooks allow of each kind, and the losses that they warn of."""
