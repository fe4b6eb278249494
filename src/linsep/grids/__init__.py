"""Many runs: planned, searched, and trained on cores, Ray or Slurm."""
