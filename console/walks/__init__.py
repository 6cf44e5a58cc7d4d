"""Names in order: pages, windows of large directories, walks through a tree in slices of time."""
