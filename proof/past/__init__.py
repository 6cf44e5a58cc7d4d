"""Proof of the archive: random writes under faults, archived meanwhile, and what clients saw at many moments.

model     what the writes make, by the replies alone; it imports nothing of what it judges
writers   clients that write at random, and find out what became of requests without a reply
__main__  the servers, the faults, and the comparison with the archive's states
"""
