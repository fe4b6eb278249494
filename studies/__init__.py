"""This project's own study: what the runs in results/small say about the paper's claims."""
