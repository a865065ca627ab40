"""One script for each contestant of benchmarks.peers, run by that engine's own Python."""
