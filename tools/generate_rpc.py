"""Generate proxy/etcd/rpc_pb2.py and its stub from proxy/etcd/rpc.proto. Run it in the repository's root."""

import sys
from argparse import ArgumentParser

from grpc_tools import protoc


def main() -> int:
    """Run protoc; its exit code is ours."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=".", help="the folder to write below")
    target = parser.parse_args().folder
    return int(
        protoc.main(
            ["protoc", "-I.", f"--python_out={target}", f"--pyi_out={target}", "proxy/etcd/rpc.proto"]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
