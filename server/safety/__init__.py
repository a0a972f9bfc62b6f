"""Who may call the server, how much they may send, and what is written down about it."""
