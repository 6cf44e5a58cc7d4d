"""Generate proxy/etcd/rpc_pb2.py and its stub from proxy/etcd/rpc.proto. Run from the repository's root."""

import sys

from grpc_tools import protoc


def main() -> int:
    """Run protoc; its exit code is ours."""
    return int(protoc.main(["protoc", "-I.", "--python_out=.", "--pyi_out=.", "proxy/etcd/rpc.proto"]))


if __name__ == "__main__":
    sys.exit(main())
