"""What benchmarks are asked about: clusters, gangs and hard problems."""
