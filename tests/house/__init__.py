"""Tests of the house itself: layout, contracts between packages, cluster and service configuration."""
