"""Benchmarks: each module runs by itself (`python -m benchmarks.<name>`) and writes benchmarks/results/<name>.json."""
