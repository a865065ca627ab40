"""What every benchmark shares: options, provenance, interleaved trials, prompts, sessions and reports."""
