"""Tests of the benchmarks: every one runs to its end on a tiny model; numbers are never judged here."""
