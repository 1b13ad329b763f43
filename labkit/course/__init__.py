"""Build, release, run, grade: everything around a lab, and the `labkit` command."""
