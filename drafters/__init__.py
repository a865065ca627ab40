"""One file per way to guess. None knows the verifier."""
