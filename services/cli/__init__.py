"""The command line: paradraft serve, generate, bench, models, doctor."""
