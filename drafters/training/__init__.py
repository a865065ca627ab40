"""Training: makes the weights of the learned drafters from answers of the target."""
