"""Generate proxy/etcd/rpc_pb2.py and its stub from proxy/etcd/rpc.proto.

Run from the repository's root; an argument names another folder to write to.
"""

import sys

from grpc_tools import protoc


def main() -> int:
    """Run protoc; its exit code is ours."""
    target = sys.argv[1] if len(sys.argv) > 1 else "."
    return int(
        protoc.main(
            ["protoc", "-I.", f"--python_out={target}", f"--pyi_out={target}", "proxy/etcd/rpc.proto"]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
