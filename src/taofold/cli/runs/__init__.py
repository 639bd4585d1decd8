"""`taofold run` and `taofold runs …`: start, drive, find, show, change and exchange runs."""
