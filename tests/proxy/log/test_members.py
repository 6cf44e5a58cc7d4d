"""The living proxies by age."""

from proxy.log.members import Member, Members
from schema.record import Home


def member(incarnation: str, revision: int) -> Member:
    return Member(incarnation, revision, (1,), "1.0")


def test_the_eldest_is_the_one_whose_key_was_made_first() -> None:
    members = Members()
    for each in (member("b", 20), member("c", 30), member("a", 10)):
        members.add(each)
    assert members.eldest == "a"
    assert [members.rank(name) for name in ("a", "b", "c", "unknown")] == [0, 1, 2, 3]
    members.gone("a")
    assert members.eldest == "b"
    assert members.rank("c") == 1
    assert "a" not in members
    assert "b" in members


def test_one_that_comes_twice_counts_once_and_by_its_newest_key() -> None:
    members = Members()
    members.add(member("a", 10))
    members.add(member("b", 20))
    members.add(member("a", 30))
    assert [each.incarnation for each in members] == ["b", "a"]
    members.gone("nobody")
    assert len(members) == 2


def test_a_member_is_found_by_name_and_named_with_its_host() -> None:
    members = Members()
    members.add(Member("a", 1, (1,), "1.0", home=Home("db-1", "0.0.0.0:2181")))
    members.add(Member("b", 2, (1,), "1.0"))
    assert [str(members.get(name)) for name in "abc"] == ["a (db-1 0.0.0.0:2181)", "b", "None"]
