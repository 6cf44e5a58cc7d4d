"""What tests, proof, bench and examples share: real servers, fakes, and clients of ZooKeeper.

client      ZooKeeper clients on codec/client.py: asyncio, and blocking for threads
oracle      the protocol declared, and a ZooKeeper client; they share no code with codec
servers     starters for the real servers that zketcd is tested and measured with and against
fakes       models that stand for real servers, checked against them
arguments   types of arguments of commands

Nothing here imports from tests; a contract in pyproject.toml says so.
"""
