"""Names of processes that serve: they differ between containers that share a network."""

from pathlib import Path

from proxy.handover.names import name_of, serving


def test_names_have_the_namespace_of_the_process_ids(tmp_path: Path) -> None:
    own = Path("/proc/self/ns/pid").stat().st_ino
    assert name_of(1) == f"\0zketcd/{own}/1"
    sockets = f"""Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 62170 @zketcd/{own}/812
0000000000000000: 00000003 00000000 00000000 0001 03 62170 @zketcd/{own}/812
0000000000000000: 00000002 00000000 00010000 0001 01 62171 @zketcd/{own}/9
0000000000000000: 00000002 00000000 00010000 0001 01 62172 @zketcd/{own + 1}/10
0000000000000000: 00000002 00000000 00010000 0001 01 20123 /run/zketcd/7
"""
    table = tmp_path / "unix"
    table.write_bytes(b"0000000000000000: 00000002 00000000 00010000 0001 01 1 @\xff\n" + sockets.encode())
    assert serving(table) == {812, 9}
