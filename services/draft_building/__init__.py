"""Drafts built ahead of traffic: by the target, which answers prompts of a file, or by a trained drafter."""
