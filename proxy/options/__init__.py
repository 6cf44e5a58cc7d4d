"""How options are declared, and those that several programs have.

An option is declared once, as a field of a dataclass. Command line, environment, TOML file and zoo.cfg derive
from the field; so do the names for Spark.

table        what a field of options is; `Option`, `option`, `switch`
values       how a text becomes a value, and the error of a bad one
zoo_values   how a text of zoo.cfg becomes a text of the option that means the same
zoo_keys     the settings of zoo.cfg that are no option here
parser       the parser of a command line, with the environment and a TOML file
file         that TOML file, for every program
words        the four-letter words, as rows
defaults     the defaults that the log has without options
etcd, tls, archive, top   the options of one subject each

`proxy.config` has all options of the server, `proxy.sasl.options` those of SASL, and `proxy.zoo_cfg` reads
zoo.cfg.
"""
