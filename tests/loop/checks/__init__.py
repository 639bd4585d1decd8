"""What runners, linters and compilers report."""
