"""Authentication schemes: one file for each, all of them in one table (`schemes.py`). Pure.

To hook in another: write a file with a `Scheme` (`scheme.py` says what it has to answer), and name it in
`schemes.SCHEMES`. Whether a server offers it is decided where `schemes.offered` is called, as ZooKeeper's
ProviderRegistry knows sasl and x509 only where they are configured.
"""
