"""What commands show: text made safe, tables, and the steps of a run, in a pipe or in colour."""
