"""From the history of a finished loop to what it teaches. Pure rules over values."""
