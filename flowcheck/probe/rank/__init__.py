"""What runs in a rank of the probe: ``python -m flowcheck.probe.rank JOB.json RANK``, or the same under torchrun."""
