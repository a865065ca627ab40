"""Same seed, same text: with any drafter, in any company, after any history."""
