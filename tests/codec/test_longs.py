"""Longs with and without a sign."""

from codec.longs import hex64, signed, unsigned


def test_the_bits_of_a_long_are_kept() -> None:
    for value, bits in ((0, 0), (7, 7), (-1, (1 << 64) - 1), (-(1 << 63), 1 << 63)):
        assert unsigned(value) == bits
        assert signed(bits) == signed(value) == value
    assert unsigned((1 << 64) + 5) == signed((1 << 64) + 5) == 5


def test_ids_are_shown_without_a_sign() -> None:
    assert [hex64(value) for value in (0, 255, -1)] == ["0x0", "0xff", "0xffffffffffffffff"]
