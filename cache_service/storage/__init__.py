"""Records on the disk: files, what stands where in them, how it was used, and the budgets that bound it."""
