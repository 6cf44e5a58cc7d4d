"""Following a ZooKeeper, and being followed by one's files."""
