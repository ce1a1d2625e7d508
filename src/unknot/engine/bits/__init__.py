"""Keeping bits equal: operations, trials and probes that hold a job's result to the job alone."""
