"""What tests, proof, bench and examples share: real servers, fakes, and clients of ZooKeeper.

servers     starters for the real servers that zketcd is tested and measured with and against
fakes       models that stand for real servers, checked against them

Nothing here imports from tests; a contract in pyproject.toml says so.
"""
