"""`taofold loop` and `taofold loops …`: start, drive, show and end loops."""
